/* An ATmega328P, emulated by simavr: runs a program, and prints the status that it ends with and the cycles between its marks.
 *
 * The program writes 1 and 2 to GPIOR0 where cycles begin and end to count, and its status to GPIOR1.
 *
 *     cc simavr_run.c -lsimavr -o simavr_run && ./simavr_run program.elf
 */

#include <stdio.h>
#include <string.h>

#include <simavr/sim_avr.h>
#include <simavr/sim_elf.h>
#include <simavr/sim_io.h>

#define GPIOR0 0x3e
#define GPIOR1 0x4a
#define MOST_CYCLES UINT64_C(2000000000)

static uint64_t started, stopped;
static int status = -1;

static void mark(struct avr_t *avr, avr_io_addr_t address, uint8_t value, void *unused)
{
    (void)unused;
    avr->data[address] = value;
    if (value == 1) {
        started = avr->cycle;
    } else {
        stopped = avr->cycle;
    }
}

static void finish(struct avr_t *avr, avr_io_addr_t address, uint8_t value, void *unused)
{
    (void)unused;
    avr->data[address] = value;
    status = value;
}

int main(int count, char **arguments)
{
    elf_firmware_t firmware;
    memset(&firmware, 0, sizeof firmware);
    if (count != 2 || elf_read_firmware(arguments[1], &firmware) != 0) {
        fputs("give the program, as an ELF file\n", stderr);
        return 2;
    }
    avr_t *avr = avr_make_mcu_by_name("atmega328p");
    if (avr == NULL) {
        return 2;
    }
    avr_init(avr);
    avr_load_firmware(avr, &firmware);
    avr_register_io_write(avr, GPIOR0, mark, NULL);
    avr_register_io_write(avr, GPIOR1, finish, NULL);
    while (status < 0 && avr->cycle < MOST_CYCLES) {
        const int state = avr_run(avr);
        if (state == cpu_Done || state == cpu_Crashed) {
            break;
        }
    }
    printf("%d %llu\n", status, (unsigned long long)(stopped - started));
    return status == 0 ? 0 : 1;
}
