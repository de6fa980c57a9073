// A pool for small arrays of NumPy, which makes the arrays that it returns.
#pragma once
#include <cstring>
#include <initializer_list>

#include "bindings/arrays.h"
#include "bindings/pools.h"

namespace ndpool {

// A pool for small arrays of NumPy that lie in one order of axes. It makes the arrays that it returns, unless it is
// given one to write to. Where an array is not what it was made for, the answer is None.
class ArrayPlan {
  public:
    // The shapes are those in memory, where the axes lie in this order; it is empty where that is the usual one. An x
    // with such strides is known to be right, whichever order these are; none are none.
    ArrayPlan(nb::object plan, nb::object type, nb::tuple shape, nb::tuple y_shape, const std::vector<int> &order,
              nb::object dtype, nb::object result, nb::object derivative, nb::object place,
              const std::vector<Py_ssize_t> &strides)
        : owner(std::move(plan)),
          pool(nb::cast<const BoundPool &>(owner).pool),
          numpy(std::move(type)),
          x(shape, dtype, order, strides),
          gx(shape, derivative, order),
          y(y_shape, result, order),
          g(y_shape, derivative, order),
          kept_x(shape, dtype),
          kept_y(y_shape, result),
          winners(y_shape, place),
          outputs(y_shape.size() == shape.size() ? Lies::ANYHOW : Lies::DENSE) {
        if (x.elements() != pool.inputs() || y.elements() != pool.outputs())
            throw std::invalid_argument("the shapes are not the plan's");
    }

    nb::object forward(nb::handle array, nb::handle out) const {
        ViewAxes axes;
        const Array from = x.memory_of(numpy, array, Lies::IN_ORDER, &axes);
        if (!from.data) return nb::none();
        const Result to(y, numpy, out, outputs, {from});
        if (to.memory.data) without_gil(pool, [&] { pool.forward(from, to.memory, {}); });
        return to.array;
    }

    // y, and what the derivative keeps, as it lies in memory: x, a copy of y, the winners, with None for those that it
    // does not.
    nb::object linearize(nb::handle array) const {
        ViewAxes axes;
        const Array from = x.memory_of(numpy, array, Lies::IN_ORDER, &axes);
        if (!from.data) return nb::none();
        const Residual &kept = pool.residual();
        nb::object to = y.made(numpy), value = kept.y ? kept_y.made(numpy) : nb::none(),
                   won = kept.winners ? winners.made(numpy) : nb::none();
        const Array made = y.memory_of(numpy, to);
        without_gil(pool, [&] { pool.linearize(from, made, winners.memory_of(numpy, won), {}); });
        if (kept.y) std::memcpy(kept_y.memory_of(numpy, value).data, made.data, static_cast<std::size_t>(made.bytes));
        return nb::make_tuple(to, nb::make_tuple(kept.x ? x.laid(array) : nb::none(), value, won));
    }

    nb::object pull(nb::handle input, nb::handle output, nb::handle places, nb::handle cotangent,
                    nb::handle out) const {
        const Residual &kept = pool.residual();
        ViewAxes axes, input_axes;
        const Array given = g.memory_of(numpy, cotangent, outputs, &axes),
                    from = kept_x.memory_of(numpy, input, Lies::ANYHOW, &input_axes),
                    value = kept_y.memory_of(numpy, output), won = winners.memory_of(numpy, places);
        if (!given.data || (kept.x && !from.data) || (kept.y && !value.data) || (kept.winners && !won.data))
            return nb::none();
        const Result to(gx, numpy, out, Lies::ANYHOW, {given, from, value, won});
        if (to.memory.data) without_gil(pool, [&] { pool.pull(from, value, won, given, to.memory, {}); });
        return to.array;
    }

  private:
    nb::object owner;  // of the pool
    const PlannedPool &pool;
    NumpyType numpy;
    ArrayLayout x, gx, y, g, kept_x, kept_y, winners;
    Lies outputs;  // how those that are given may lie: they have the axes of x, unless these are gone

    // An array that is made, or the one that is given; None without memory where that is not fit to be written to.
    struct Result {
        nb::object array;
        ViewAxes axes;
        Array memory;

        Result(const ArrayLayout &layout, const NumpyType &numpy, nb::handle given, Lies lies,
               std::initializer_list<Array> read)
            : array(given.is_none() ? layout.made(numpy) : nb::borrow(given)),
              memory(given.is_none() ? layout.memory_of(numpy, array)
                                     : layout.memory_to_write(numpy, given, lies, &axes, read)) {
            if (!memory.data) array = nb::none();
        }
    };
};

}  // namespace ndpool
