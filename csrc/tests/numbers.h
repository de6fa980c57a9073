// Arrays of any of the engine's types, as numbers that a test computes with.
#pragma once
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "kinds/engine.h"

namespace ndpool_tests {

using ndpool::i64;
using ndpool::Type;

// Holds every number of every type: 64-bit integers have as many bits as its mantissa on x86-64 and ARM's Linux.
using Real = long double;

// --- 16-bit floats ----------------------------------------------------------------------------------

// A float with so many bits for the exponent and for the fraction, below a sign.
struct Format {
    int exponent_bits, fraction_bits;

    Real decoded(std::uint16_t bits) const {
        const int bias = (1 << (exponent_bits - 1)) - 1, fraction = bits & ((1 << fraction_bits) - 1);
        const int exponent = bits >> fraction_bits & ((1 << exponent_bits) - 1);
        const Real sign = bits >> 15 ? -1 : 1;
        if (exponent == (1 << exponent_bits) - 1) return fraction ? std::nanl("") : sign * HUGE_VALL;
        if (exponent == 0) return sign * std::ldexp(static_cast<Real>(fraction), 1 - bias - fraction_bits);
        return sign * std::ldexp(static_cast<Real>(fraction + (1 << fraction_bits)), exponent - bias - fraction_bits);
    }

    // A number of the format that is not far from v; which one does not matter to who decodes it.
    std::uint16_t near(Real v) const {
        const std::uint16_t sign = std::signbit(v) ? 0x8000 : 0;
        const int all = (1 << exponent_bits) - 1, bias = all / 2;
        if (std::isnan(v)) return static_cast<std::uint16_t>(all << fraction_bits | 1 << (fraction_bits - 1));
        if (std::isinf(v)) return static_cast<std::uint16_t>(sign | all << fraction_bits);
        int exponent;
        const Real mantissa = std::frexp(std::fabs(v), &exponent);  // from 1/2 up to 1
        if (v == 0 || exponent - 1 + bias < 1) return sign;
        const int fraction = static_cast<int>(std::ldexp(mantissa, fraction_bits + 1)) - (1 << fraction_bits);
        return static_cast<std::uint16_t>(sign | (exponent - 1 + bias) << fraction_bits | fraction);
    }
};

constexpr Format HALF{5, 10}, BFLOAT{8, 7};

// --- arrays -----------------------------------------------------------------------------------------

template <class T>
T read_as(const char *p) {
    T value;
    std::memcpy(&value, p, sizeof value);
    return value;
}

template <class T>
void write_as(char *p, T value) {
    std::memcpy(p, &value, sizeof value);
}

// Numbers in memory of their own, with a margin on both sides that must stay as it is.
class Numbers {
  public:
    Numbers(Type type, i64 count)
        : type(type), count(count), memory(static_cast<std::size_t>(count * size_of(type)) + 2 * MARGIN, char(0x5a)) {}

    const Type type;
    const i64 count;

    char *data() { return memory.data() + MARGIN; }
    const char *data() const { return memory.data() + MARGIN; }
    i64 bytes() const { return count * size_of(type); }
    ndpool::Array array() { return {data(), bytes(), size_of(type)}; }

    bool margins_are_whole() const {
        for (std::size_t i = 0; i < MARGIN; ++i)
            if (memory[i] != 0x5a || memory[memory.size() - 1 - i] != 0x5a) return false;
        return true;
    }
    bool same_bytes(const Numbers &other) const {
        return bytes() == other.bytes() && std::memcmp(data(), other.data(), static_cast<std::size_t>(bytes())) == 0;
    }

    Real operator[](i64 i) const {
        const char *p = data() + i * size_of(type);
        switch (type) {
            case Type::I8: return read_as<std::int8_t>(p);
            case Type::U8: return read_as<std::uint8_t>(p);
            case Type::I16: return read_as<std::int16_t>(p);
            case Type::U16: return read_as<std::uint16_t>(p);
            case Type::I32: return read_as<std::int32_t>(p);
            case Type::U32: return read_as<std::uint32_t>(p);
            case Type::I64: return static_cast<Real>(read_as<std::int64_t>(p));
            case Type::U64: return static_cast<Real>(read_as<std::uint64_t>(p));
            case Type::F16: return HALF.decoded(read_as<std::uint16_t>(p));
            case Type::BF16: return BFLOAT.decoded(read_as<std::uint16_t>(p));
            case Type::F32: return read_as<float>(p);
            case Type::F64: return read_as<double>(p);
        }
        return 0;
    }
    // The number in 64 bits, as a sum of integers takes it.
    std::uint64_t whole(i64 i) const {
        if (type == Type::U64) return read_as<std::uint64_t>(data() + i * 8);
        return static_cast<std::uint64_t>(static_cast<std::int64_t>((*this)[i]));
    }
    // Puts a number that the type can hold, or one of its numbers nearby.
    void set(i64 i, Real v) {
        char *p = data() + i * size_of(type);
        switch (type) {
            case Type::F16: return write_as(p, HALF.near(v));
            case Type::BF16: return write_as(p, BFLOAT.near(v));
            case Type::F32: return write_as(p, static_cast<float>(v));
            case Type::F64: return write_as(p, static_cast<double>(v));
            case Type::U64: return write_as(p, static_cast<std::uint64_t>(v));
            default: break;
        }
        const auto whole = static_cast<std::int64_t>(v);
        std::memcpy(p, &whole, static_cast<std::size_t>(size_of(type)));  // the low bytes come first
    }

  private:
    static constexpr std::size_t MARGIN = 64;
    std::vector<char> memory;
};

// --- random numbers ---------------------------------------------------------------------------------

// The same numbers from the same seed with every standard library, unlike the distributions of <random>.
class Dice {
  public:
    explicit Dice(std::uint64_t seed) : bits(seed * 0x9e3779b97f4a7c15u + 1) {}
    // From lo to hi, both included.
    i64 from(i64 lo, i64 hi) { return lo + static_cast<i64>(bits() % static_cast<std::uint64_t>(hi - lo + 1)); }
    bool one_in(i64 n) { return from(1, n) == 1; }
    // About as far from 0 as a normal number.
    Real normal() {
        Real sum = 0;
        for (int i = 0; i < 4; ++i) sum += static_cast<Real>(from(-1000003, 1000003)) / 1000003;
        return sum;
    }
    std::uint64_t any() { return bits(); }

  private:
    std::mt19937_64 bits;
};

}  // namespace ndpool_tests
