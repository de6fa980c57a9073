#include "kinds/boxes.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <mutex>
#include <stdexcept>

#include "base/threads.h"
#include "kinds/levels.h"
#include "plan/make_plan.h"

namespace ndpool {
namespace {

// --- the level in use -----------------------------------------------------------------------------

struct Kernels {
    const char *level;
    decltype(&a_level::check_box) check;
    decltype(&a_level::magnitudes) magnitudes;
    decltype(&a_level::move_outward) move_outward;
    decltype(&a_level::select_lines) select;
    decltype(&a_level::smooth_lines) smooth;
    decltype(&a_level::norm_lines) norm;
    decltype(&a_level::maximum_lines) maximum;
};

const Kernels KERNELS[] = {
#define NDPOOL_BUILT(LEVEL)  \
    {#LEVEL,                 \
     LEVEL::check_box,       \
     LEVEL::magnitudes,      \
     LEVEL::move_outward,    \
     LEVEL::select_lines,    \
     LEVEL::smooth_lines,    \
     LEVEL::norm_lines,      \
     LEVEL::maximum_lines},
#include <built_levels.def>  // CMakeLists.txt writes it
#undef NDPOOL_BUILT
};

const Kernels &kernels() {
    const std::string level = level_in_use();
    for (const Kernels &each : KERNELS)
        if (level == each.level) return each;
    return KERNELS[0];
}

// --- pieces ---------------------------------------------------------------------------------------

constexpr i64 PIECE_BYTES = 1 << 18;  // of each end: both of them, and what is made of them, stay in the caches

void check_bytes(const Array &array, const char *name, i64 elements, i64 size) {
    if (array.steps || array.element_bytes != size || array.bytes != elements * size)
        throw std::invalid_argument(std::string(name) + " has " + std::to_string(array.bytes) +
                                    " bytes; expected a dense array of " + std::to_string(elements) + " elements of " +
                                    std::to_string(size));
}

// Part of an array.
Array part_of(const Array &array, i64 start, i64 elements) {
    return {static_cast<char *>(array.data) + start * array.element_bytes, elements * array.element_bytes,
            array.element_bytes};
}

// The request over fewer outer slabs, all leading dimensions as one.
Request over(const Request &whole, i64 slabs, std::size_t leading) {
    Request own = whole;
    own.dims.assign(whole.dims.begin() + static_cast<std::ptrdiff_t>(leading), whole.dims.end());
    own.dims.insert(own.dims.begin(), std::vector<i64>{slabs});
    return own;
}

// The same, of the largest cell of each window.
Request sizes_of(Request request) {
    request.kind = "max", request.option = "first", request.parameter = 0;
    request.result = request.dtype, request.winner_bytes = 0;
    return request;
}

}  // namespace

BoxedPool::BoxedPool(const Request &request) : by_magnitude(request.kind == "lp") {
    const PlannedPool all(request);
    std::size_t leading = 0;
    while (leading < request.dims.size() && request.dims[leading].size() == 1) outer *= request.dims[leading++][0];
    if (all.inputs() == 0 || all.outputs() == 0 || outer == 0) {
        outer = 0;
        return;
    }
    const i64 slab = all.inputs() / outer * size_of(all.input_type());
    piece = std::max<i64>(1, std::min(outer, PIECE_BYTES / std::max<i64>(slab, 1)));
    full = std::make_unique<PlannedPool>(over(request, piece, leading));
    if (outer % piece) rest = std::make_unique<PlannedPool>(over(request, outer % piece, leading));
    const bool has_order = request.kind == "quantile" || request.kind == "median";
    if (!has_order || !is_float(all.input_type())) return;
    full_sizes = std::make_unique<PlannedPool>(sizes_of(over(request, piece, leading)));
    if (rest) rest_sizes = std::make_unique<PlannedPool>(sizes_of(over(request, outer % piece, leading)));
}

bool BoxedPool::run_piece(i64 number, const Array &lo, const Array &hi, const Array &ylo, const Array &yhi,
                          const EndsError &error, bool &is_odd) const {
    const bool is_last = rest && number == outer / piece;
    const PlannedPool &pool = is_last ? *rest : *full;
    const Kernels &use = kernels();
    const i64 in = pool.inputs(), out = pool.outputs();
    const i64 in_start = number * full->inputs(), out_start = number * full->outputs();
    const Array a = part_of(lo, in_start, in), b = part_of(hi, in_start, in);
    const Array ends[] = {part_of(ylo, out_start, out), part_of(yhi, out_start, out)};
    const Type type = pool.input_type();
    const bool of_piece = error.size == EndsError::Size::OF_PIECE, of_window = error.size == EndsError::Size::OF_WINDOW;
    const BoxCheck found = use.check(type, a.data, b.data, in, of_piece || of_window);
    if (!found.in_order) return false;
    const i64 bytes = size_of(type);
    Scratch<char> least(by_magnitude ? in * bytes : 0, "the least magnitudes"),
        largest(by_magnitude || of_window ? in * bytes : 0, "the largest magnitudes");
    if (by_magnitude || of_window)
        use.magnitudes(type, a.data, b.data, by_magnitude ? least.data() : nullptr, largest.data(), in);
    pool.forward(by_magnitude ? Array{least.data(), in * bytes, bytes} : a, ends[0]);
    pool.forward(by_magnitude ? Array{largest.data(), in * bytes, bytes} : b, ends[1]);
    if (!error.any) return true;
    is_odd = !std::isfinite(found.largest);
    Scratch<char> sizes(of_window ? out * bytes : 0, "the largest magnitude of each window");
    if (of_window)
        (is_last ? *rest_sizes : *full_sizes)
            .forward(Array{largest.data(), in * bytes, bytes}, Array{sizes.data(), out * bytes, bytes});
    Outward outward{error.relative, 0, error.per_size, error.floor, error.counted, error.least, false, by_magnitude};
    outward.absolute = (found.largest * error.per_size + error.floor) * error.counted + error.least;
    for (const bool up : {false, true}) {
        outward.up = up;
        is_odd |=
            !use.move_outward(pool.result_type(), ends[up].data, of_window ? sizes.data() : nullptr, out, outward);
    }
    return true;
}

bool BoxedPool::bounds(const Array &lo, const Array &hi, const Array &ylo, const Array &yhi, const EndsError &error,
                       int threads, std::vector<i64> &odd) const {
    const ThreadsOfCall of_call(threads);
    if (outer == 0) return true;
    const i64 slabs = outer, pieces = (slabs + piece - 1) / piece;
    const i64 in = full->inputs() / piece * slabs, out = full->outputs() / piece * slabs;
    check_bytes(lo, "lo", in, size_of(full->input_type())), check_bytes(hi, "hi", in, size_of(full->input_type()));
    check_bytes(ylo, "ylo", out, size_of(full->result_type()));
    check_bytes(yhi, "yhi", out, size_of(full->result_type()));
    if (error.size == EndsError::Size::OF_WINDOW && !full_sizes)
        throw std::invalid_argument("only quantiles of floats have the sizes of windows");
    std::atomic<bool> in_order{true};
    std::mutex mutex;
    auto run = [&](i64 begin, i64 end) {
        for (i64 number = begin; number < end && in_order; ++number) {
            bool is_odd = false;
            if (!run_piece(number, lo, hi, ylo, yhi, error, is_odd)) in_order = false;
            if (!is_odd) continue;
            const std::lock_guard<std::mutex> lock(mutex);
            odd.push_back(number);
        }
    };
    parallel(pieces, pieces > 1 && worth_threads(in), run);  // one piece may share out its work itself
    std::sort(odd.begin(), odd.end());
    return in_order;
}

// --- windows as lanes -----------------------------------------------------------------------------

Boxes::Boxes(const i64 *places, const bool *real, i64 taps, i64 windows, i64 rows, i64 cells, i64 line, int lanes) {
    if (lanes != 8 && lanes != 16) throw std::invalid_argument("lanes is neither 8 nor 16");
    if (taps < 1 || windows < 0 || rows < 0 || cells < 0 || line < 1 || windows % line)
        throw std::invalid_argument("the numbers make no windows");
    if (taps > std::numeric_limits<std::uint32_t>::max()) throw std::invalid_argument("a window has too many cells");
    // Everything that is counted from here on, in bytes of doubles.
    const i64 doubles = counted_product(rows, 8, "a box has", "bytes");
    counted_product(doubles, std::max<i64>(cells, 1), "a box has", "bytes");
    counted_product(counted_product(doubles, std::max<i64>(windows, 1), "a box has", "windows"), taps, "lines have",
                    "slopes");
    for (i64 i = 0; i < taps * windows; ++i)
        if (real[i] && (places[i] < 0 || places[i] >= cells)) throw std::invalid_argument("a place is not in its row");
    view.lanes = lanes, view.rows = rows, view.cells = cells, view.windows = windows, view.taps = taps;
    view.rows_at_once = windows >= lanes ? 1 : std::max<i64>(1, std::min<i64>(rows, windows ? lanes / windows : 1));
    view.used = static_cast<int>(std::min<i64>(lanes, view.rows_at_once * windows));
    if (rows * windows == 0) return;
    // Groups stay within a line where lines are long enough; the last of a line overlaps the one before it.
    const i64 length = line >= lanes ? line : view.rows_at_once * windows;
    for (i64 begin = 0; begin < view.rows_at_once * windows; begin += length)
        for (i64 i = 0; i < length; i += lanes)
            add_group(places, real, begin + std::max<i64>(0, std::min(i, length - lanes)));
    view.groups = static_cast<i64>(starts.size());
    view.tap = tap.data(), view.start = starts.data(), view.scattered = scattered.data();
    view.first_place = first_places.data();
    if (windows < lanes) add_runs(places, real);
}

// Few windows that are mostly runs as long as registers: lanes are cells there, and not windows.
void Boxes::add_runs(const i64 *places, const bool *real) {
    i64 cells = 0;
    for (i64 w = 0; w < view.windows; ++w) {
        run_starts.push_back(static_cast<i64>(runs.size()));
        bool goes_on = false;
        for (i64 k = 0; k < view.taps; ++k) {
            const i64 place = places[k * view.windows + w];
            const bool is_real = real[k * view.windows + w];
            cells += is_real;
            if (is_real && goes_on && place == runs.back().first + runs.back().count)
                ++runs.back().count;
            else if (is_real)
                runs.push_back({place, 1, k});
            goes_on = is_real;
        }
    }
    run_starts.push_back(static_cast<i64>(runs.size()));
    if (cells < 2 * view.lanes * static_cast<i64>(runs.size())) return;
    view.runs = runs.data(), view.run_start = run_starts.data();
}

void Boxes::add_group(const i64 *places, const bool *real, i64 start) {
    starts.push_back(start);
    std::vector<std::uint32_t> first(static_cast<std::size_t>(view.lanes), ~std::uint32_t(0));
    std::vector<i64> at(static_cast<std::size_t>(view.lanes));
    for (i64 k = 0; k < view.taps; ++k) {
        int there = 0;
        for (int i = 0; i < view.lanes; ++i) {
            const i64 lane = start + i % view.used, window = lane % view.windows, row = lane / view.windows;
            const bool is_real = real[k * view.windows + window];
            const auto n = static_cast<std::size_t>(i);
            at[n] = is_real ? row * view.cells + places[k * view.windows + window] : -1;
            there += is_real;
            if (is_real && first[n] == ~std::uint32_t(0)) first[n] = static_cast<std::uint32_t>(k);
        }
        const i64 step = at[1] - at[0];
        bool regular = there == view.lanes && step > 0;
        for (std::size_t i = 1; i < at.size(); ++i) regular = regular && at[i] - at[i - 1] == step;
        if (regular) {
            tap.push_back({at[0], step});
        } else if (there == 0) {
            tap.push_back({0, Tap::NOWHERE});
        } else {
            tap.push_back({static_cast<i64>(scattered.size()), Tap::SCATTERED});
            scattered.insert(scattered.end(), at.begin(), at.end());
        }
    }
    for (std::uint32_t &place : first) place = place == ~std::uint32_t(0) ? 0 : place;
    first_places.insert(first_places.end(), first.begin(), first.end());
}

// Calls work(block, from, to) for all groups. A row that fits into the cache is checked just before.
template <class Work>
bool Boxes::over_blocks(Type type, const void *lo, const void *hi, bool check, int threads, const Work &work) const {
    const ThreadsOfCall of_call(threads);
    if (outputs() == 0 && !check) return true;
    const Kernels &use = kernels();
    const i64 bytes = size_of(type), count = view.rows_at_once * view.cells;
    const bool fits = count * bytes <= 4 * PIECE_BYTES && outputs() > 0;
    std::atomic<bool> in_order{true};
    auto look = [&](i64 start, i64 cells) {
        if (!check) return true;
        const i64 offset = start * bytes;
        return use
            .check(type, static_cast<const char *>(lo) + offset, static_cast<const char *>(hi) + offset, cells, false)
            .in_order;
    };
    if (!fits) {
        const i64 piece = PIECE_BYTES / bytes;
        parallel((inputs() + piece - 1) / piece, worth_threads(inputs()), [&](i64 begin, i64 end) {
            for (i64 i = begin; i < end && in_order; ++i)
                if (!look(i * piece, std::min(piece, inputs() - i * piece))) in_order = false;
        });
        if (!in_order || outputs() == 0) return in_order;
    }
    const i64 groups = fits ? view.groups : std::min<i64>(view.groups, 256),
              parts = (view.groups + groups - 1) / groups;
    parallel(view.blocks() * parts, worth_threads(inputs()), [&](i64 begin, i64 end) {
        for (i64 unit = begin; unit < end && in_order; ++unit) {
            const i64 block = unit / parts, from = unit % parts * groups;
            if (fits && !look(view.row_of(block) * view.cells, count))
                in_order = false;
            else
                work(block, from, std::min(from + groups, view.groups));
        }
    });
    return in_order;
}

bool Boxes::select(Type type, const SelectLines &lines, int threads) const {
    const Kernels &use = kernels();
    return over_blocks(type, lines.lo, lines.hi, true, threads,
                       [&](i64 block, i64 from, i64 to) { use.select(type, view, lines, block, from, to); });
}

bool Boxes::relax(Kind kind, Type type, const CellLines &lines, bool check, int threads, bool &is_odd) const {
    const Kernels &use = kernels();
    const auto run = kind == Kind::MAX ? use.maximum : kind == Kind::LP ? use.norm : use.smooth;
    std::atomic<bool> odd{false};
    const bool in_order = over_blocks(type, lines.lo, lines.hi, check, threads, [&](i64 block, i64 from, i64 to) {
        if (!run(type, view, lines, block, from, to)) odd = true;
    });
    is_odd = odd;
    return in_order;
}

}  // namespace ndpool
