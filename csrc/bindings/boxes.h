// Boxes: the ends of a pool's interval, and windows over matrices in lanes.
#pragma once
#include "bindings/pools.h"
#include "kinds/boxes.h"

namespace ndpool {

// The ends of a pool's interval.
class BoundBoxedPool {
  public:
    BoundBoxedPool(Dims dims, std::string kind, std::string option, double parameter, std::string dtype,
                   std::string result, std::string derivative, int winner_bytes, const SkipNumbers &skip,
                   std::vector<i64> pooled)
        : x_bytes(size_of(type_named(dtype))),
          y_bytes(size_of(type_named(result))),
          pool({std::move(dims), std::move(kind), std::move(option), parameter, std::move(dtype), std::move(result),
                std::move(derivative), winner_bytes, skip_of(skip), std::move(pooled)}) {}

    // None where the box is not in order, and else the pieces that are odd.
    nb::object bounds(nb::handle lo, nb::handle hi, nb::handle ylo, nb::handle yhi,
                      const std::optional<std::tuple<std::string, double, double, double, double, double>> &given,
                      int threads) const {
        EndsError error;
        if (given) {
            std::string size;
            std::tie(size, error.relative, error.per_size, error.floor, error.counted, error.least) = *given;
            error.any = true;
            error.size = size == "piece"    ? EndsError::Size::OF_PIECE
                         : size == "window" ? EndsError::Size::OF_WINDOW
                                            : EndsError::Size::NONE;
        }
        const Argument a(lo, x_bytes, Access::READ), b(hi, x_bytes, Access::READ), least(ylo, y_bytes, Access::WRITE),
            greatest(yhi, y_bytes, Access::WRITE);
        std::vector<i64> odd;
        bool in_order = false;
        without_gil([&] { in_order = pool.bounds(a, b, least, greatest, error, threads, odd); });
        return in_order ? nb::cast(odd) : nb::none();
    }
    i64 slabs_of_piece() const { return pool.slabs_of_piece(); }

  private:
    const i64 x_bytes, y_bytes;
    const BoxedPool pool;
};

// Windows over matrices, in lanes.
class BoundBoxes {
  public:
    BoundBoxes(nb::handle places, nb::handle real, i64 windows, i64 rows, i64 cells, i64 line, int lanes)
        : boxes(made(places, real, windows, rows, cells, line, lanes)) {}

    bool select(nb::handle lo, nb::handle hi, const std::string &dtype, nb::handle below, nb::handle above,
                int place_bytes, nb::handle slope, nb::handle bias, bool minimum, bool by_lo, bool constant,
                int threads) const {
        const Type type = checked_type(dtype, boxes.lanes());
        const i64 bytes = size_of(type), in = boxes.inputs(), out = boxes.outputs();
        if (place_bytes != 1 && place_bytes != 2 && place_bytes != 4)
            throw std::invalid_argument("place_bytes is none of 1, 2 and 4");
        const Argument a(lo, bytes, Access::READ), b(hi, bytes, Access::READ), p(below, place_bytes, Access::WRITE),
            q(above, place_bytes, Access::WRITE), s(slope, bytes, Access::WRITE), o(bias, bytes, Access::WRITE);
        const SelectLines lines{memory(a, in, bytes),
                                memory(b, in, bytes),
                                memory(p, out, place_bytes),
                                memory(q, out, place_bytes),
                                place_bytes,
                                memory(s, out, bytes),
                                memory(o, out, bytes),
                                minimum,
                                by_lo,
                                constant};
        bool in_order = false;
        without_gil([&] { in_order = boxes.select(type, lines, threads); });
        return in_order;
    }

    // None where the box is not in order, and else whether some window has no line.
    nb::object relax(const std::string &kind, nb::handle lo, nb::handle hi, const std::string &dtype, double parameter,
                     nb::handle below_slopes, nb::handle below_bias, nb::handle above_slopes, nb::handle above_bias,
                     bool minimum, bool by_lo, nb::handle at, nb::handle weights, nb::handle zeros, bool check,
                     int threads) const {
        const Type type = checked_type(dtype, dtype == "float32" ? 16 : 8);
        if (boxes.lanes() != 8) throw std::invalid_argument("these kinds have 8 lanes");
        if (kind != "lp" && kind != "smooth_max" && kind != "max")
            throw std::invalid_argument("'" + kind + "' is none of 'max', 'smooth_max' and 'lp'");
        if (kind == "max" && !(parameter == 0 || parameter == 1 || parameter == 2))
            throw std::invalid_argument("a maximum is drawn from the hi of number 0, 1 or 2");
        const i64 bytes = size_of(type), in = boxes.inputs(), out = boxes.outputs();
        const Argument a(lo, bytes, Access::READ), b(hi, bytes, Access::READ), point(at, 8, Access::READ),
            mixed(weights, 8, Access::READ), padded(zeros, 8, Access::READ), below(below_slopes, bytes, Access::WRITE),
            below_at(below_bias, bytes, Access::WRITE), above(above_slopes, bytes, Access::WRITE),
            above_at(above_bias, bytes, Access::WRITE);
        auto doubles = [&](const Array &array, i64 count) {
            return array.is_given() ? static_cast<double *>(memory(array, count, 8)) : nullptr;
        };
        const i64 all = out * boxes.taps();
        const CellLines lines{memory(a, in, bytes),
                              memory(b, in, bytes),
                              minimum,
                              parameter,
                              by_lo,
                              doubles(point, in),
                              doubles(mixed, in),
                              doubles(padded, boxes.windows()),
                              memory(below, all, bytes),
                              memory(below_at, out, bytes),
                              memory(above, all, bytes),
                              memory(above_at, out, bytes)};
        bool in_order = false, is_odd = false;
        const Boxes::Kind which = kind == "lp"           ? Boxes::Kind::LP
                                  : kind == "smooth_max" ? Boxes::Kind::SMOOTH_MAX
                                                         : Boxes::Kind::MAX;
        without_gil([&] { in_order = boxes.relax(which, type, lines, check, threads, is_odd); });
        return in_order ? nb::cast(is_odd) : nb::none();
    }

  private:
    const Boxes boxes;

    static Boxes made(nb::handle places, nb::handle real, i64 windows, i64 rows, i64 cells, i64 line, int lanes) {
        const Argument at(places, 8, Access::READ), is(real, 1, Access::READ);
        const Array &there = is;
        if (windows < 0 || (windows && there.bytes % windows)) throw std::invalid_argument("real has other windows");
        const i64 taps = windows ? there.bytes / windows : 1;
        return Boxes(static_cast<const i64 *>(memory(at, taps * windows, 8)),
                     static_cast<const bool *>(memory(is, taps * windows, 1)), taps, windows, rows, cells, line, lanes);
    }
    static void *memory(const Array &array, i64 elements, i64 bytes) {
        if (array.steps || array.element_bytes != bytes || array.bytes != elements * bytes)
            throw std::invalid_argument("an array has " + std::to_string(array.bytes) + " bytes; expected " +
                                        std::to_string(elements) + " dense elements of " + std::to_string(bytes));
        return array.data;
    }
    static Type checked_type(const std::string &dtype, int lanes) {
        if ((dtype != "float32" || lanes != 16) && (dtype != "float64" || lanes != 8))
            throw std::invalid_argument("boxes in lanes are of float32 in 16 or of float64 in 8");
        return type_named(dtype);
    }
};

}  // namespace ndpool
