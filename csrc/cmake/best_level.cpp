// Prints the best instruction level of this processor: the one that is built where NDPOOL_LEVELS is "here".
#include <cstdio>
#include <initializer_list>

#include "kinds/processor.h"

int main() {
    const char *best = "baseline";
    for (const char *level : {"avx2", "avx512"})
        if (ndpool::processor_has(level)) best = level;
    std::puts(best);
}
