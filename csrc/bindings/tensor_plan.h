// A pool for tensors of one layout, which makes the tensors that it returns.
#pragma once
#include "bindings/pools.h"
#include "bindings/tensors.h"

namespace ndpool {

// A pool for tensors of one shape and order in memory, which makes the tensors that it returns. Where a tensor is not
// what it was made for, or there is no memory for a result, the answer is None, and the caller finds another way or the
// words.
class TensorPlan {
  public:
    TensorPlan(nb::object plan, nb::object type, const std::vector<i64> &shape, const std::vector<i64> &strides,
               const std::vector<i64> &y_shape, const std::vector<i64> &y_strides, const std::string &dtype,
               const std::string &result, const std::vector<int> &order)
        : owner(std::move(plan)),
          pool(nb::cast<const BoundPool &>(owner).pool),
          type(std::move(type)),
          x(shape, strides, dtype, dlpack::CPU, order),
          y(y_shape, y_strides, result),
          g(y_shape, y_strides, dtype, dlpack::CPU, y_shape.size() == shape.size() ? order : std::vector<int>()),
          winners(y_shape, y_strides, winner_type()),
          cotangents(y_shape.size() == shape.size() ? Lies::ANYHOW : Lies::DENSE) {
        check_order(order, shape.size());
        if (!this->type.table) throw std::invalid_argument("the type shares no tensors in C");
        if (x.elements() != pool.inputs() || y.elements() != pool.outputs())
            throw std::invalid_argument("the shapes are not the plan's");
        if (x.element_bytes() != size_of(pool.input_type()) || y.element_bytes() != size_of(pool.result_type()))
            throw std::invalid_argument("the types are not the plan's");
    }

    // Whether a tensor is what the plan was made for: of this shape, and with its axes in this order.
    bool takes(nb::handle tensor) const {
        ViewAxes axes;
        return x.memory_of(type, tensor, Lies::IN_ORDER, &axes).data != nullptr;
    }

    nb::object forward(nb::handle tensor, int threads) const {
        const Manner manner{threads, ""};
        ViewAxes axes;
        const Array from = x.memory_of(type, tensor, Lies::ANYHOW, &axes);
        if (!from.data) return nb::none();
        return y.made(type, [&](const Array &to) { without_gil(pool, [&] { pool.forward(from, to, manner); }); });
    }

    // y and the winners, which are None where the pool keeps none.
    nb::object linearize(nb::handle tensor, int threads) const {
        const Manner manner{threads, ""};
        ViewAxes axes;
        const Array from = x.memory_of(type, tensor, Lies::ANYHOW, &axes);
        if (!from.data) return nb::none();
        if (!pool.winner_bytes()) return nb::make_tuple(forward(tensor, threads), nb::none());
        nb::object won;
        nb::object value = y.made(type, [&](const Array &to) {
            won = winners.made(type, [&](const Array &places) {
                without_gil(pool, [&] { pool.linearize(from, to, places, manner); });
            });
        });
        if (value.is_none() || won.is_none()) return nb::none();
        return nb::make_tuple(value, won);
    }

    nb::object pull(nb::handle input, nb::handle output, nb::handle places, nb::handle cotangent, int threads) const {
        const Manner manner{threads, ""};
        const Residual &kept = pool.residual();
        ViewAxes axes, input_axes;
        // A cotangent is often one number, repeated.
        const Array given = g.memory_of(type, cotangent, cotangents, &axes);
        const Array from = kept.x ? x.memory_of(type, input, Lies::ANYHOW, &input_axes) : Array{},
                    value = kept.y ? y.memory_of(type, output) : Array{},
                    won = kept.winners ? winners.memory_of(type, places) : Array{};
        if (!given.data || (kept.x && !from.data) || (kept.y && !value.data) || (kept.winners && !won.data))
            return nb::none();
        return x.made(
            type, [&](const Array &to) { without_gil(pool, [&] { pool.pull(from, value, won, given, to, manner); }); });
    }

  private:
    nb::object owner;  // of the pool
    const PlannedPool &pool;
    TensorType type;
    TensorLayout x, y, g, winners;  // gx is as x
    Lies cotangents;                // they have the axes of x, unless these are gone

    // Where no winners are kept, no tensor of theirs is ever asked for or made.
    std::string winner_type() const {
        return "uint" + std::to_string(8 * (pool.winner_bytes() ? pool.winner_bytes() : 1));
    }
};

}  // namespace ndpool
