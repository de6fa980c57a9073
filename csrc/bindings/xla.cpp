#include "bindings/xla.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <shared_mutex>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "base/threads.h"
#include "bindings/xla_interface.h"
#include "kinds/engine.h"

namespace nb = nanobind;

namespace ndpool {
namespace {

// --- pools as text --------------------------------------------------------------------------------
//
// A pool comes as a text in the call's one attribute, "plan", so that a program which was compiled or exported
// elsewhere says by itself all that it computes:
//
//     kind=max;option=first;parameter=0;dtype=float32;result=float32;derivative=float32;winners=1;
//     dims=8 64 112,56,3,2,1,1,1,0 112,56,3,2,1,1,1,0;skip=;pooled=2,3
//
// The parameter is the bits of a double. A dimension has one number or eight. `skip` is empty or has three numbers.

[[noreturn]] void not_a_plan(const std::string &why) {
    throw std::invalid_argument("the program's plan is not one that this version of ndpool reads (" + why +
                                "); export or compile it again");
}

std::vector<std::string_view> parts_of(std::string_view text, char between) {
    std::vector<std::string_view> parts;
    while (!text.empty()) {
        const std::size_t end = std::min(text.find(between), text.size());
        parts.push_back(text.substr(0, end));
        text.remove_prefix(std::min(end + 1, text.size()));
    }
    return parts;
}

std::uint64_t number_of(std::string_view text) {
    std::uint64_t number = 0;
    if (text.empty()) not_a_plan("a number is missing");
    for (char digit : text) {
        if (digit < '0' || digit > '9' || __builtin_mul_overflow(number, std::uint64_t{10}, &number) ||
            __builtin_add_overflow(number, static_cast<std::uint64_t>(digit - '0'), &number))
            not_a_plan("'" + std::string(text) + "' is no number");
    }
    return number;
}

std::vector<i64> numbers_of(std::string_view text) {
    std::vector<i64> numbers;
    for (std::string_view each : parts_of(text, ',')) numbers.push_back(static_cast<i64>(number_of(each)));
    return numbers;
}

Request request_of(std::string_view text) {
    std::map<std::string_view, std::string_view> fields;
    for (std::string_view each : parts_of(text, ';')) {
        const std::size_t equals = each.find('=');
        if (equals == each.npos) not_a_plan("'" + std::string(each) + "' has no '='");
        fields[each.substr(0, equals)] = each.substr(equals + 1);
    }
    const auto field = [&](const char *name) {
        const auto found = fields.find(name);
        if (found == fields.end()) not_a_plan(std::string("it has no ") + name);
        return found->second;
    };
    Request request;
    request.kind = field("kind"), request.option = field("option");
    const std::uint64_t bits = number_of(field("parameter"));
    std::memcpy(&request.parameter, &bits, sizeof bits);
    request.dtype = field("dtype"), request.result = field("result"), request.derivative = field("derivative");
    request.winner_bytes = static_cast<int>(number_of(field("winners")));
    for (std::string_view each : parts_of(field("dims"), ' ')) request.dims.push_back(numbers_of(each));
    if (const auto skip = parts_of(field("skip"), ','); skip.size() == 3)
        request.skip = {true, number_of(skip[0]), number_of(skip[1]), static_cast<i64>(number_of(skip[2]))};
    else if (!skip.empty())
        not_a_plan("skip has " + std::to_string(skip.size()) + " numbers");
    request.pooled = numbers_of(field("pooled"));
    return request;
}

// The pool of a text, made once. When there are too many, all are let go: those in use live on until they are done.
std::shared_ptr<const PlannedPool> pool_of(std::string_view text) {
    constexpr std::size_t MOST = 4096;
    static auto &pools = *new std::map<std::string, std::shared_ptr<const PlannedPool>, std::less<>>;
    static auto &mutex = *new std::shared_mutex;  // never destroyed: at exit a program may still be running
    {
        std::shared_lock<std::shared_mutex> lock(mutex);
        if (const auto found = pools.find(text); found != pools.end()) return found->second;
    }
    auto made = std::make_shared<const PlannedPool>(request_of(text));
    std::unique_lock<std::shared_mutex> lock(mutex);
    if (pools.size() >= MOST) pools.clear();
    return pools.emplace(text, std::move(made)).first->second;
}

// --- a call ---------------------------------------------------------------------------------------

// XLA's structures, each with its size.
template <class T>
T with_size() {
    T made{};
    made.head.size = sizeof(T);
    return made;
}

xla::Error *error(const xla::CallFrame &frame, xla::NewError::Code code, const char *message) {
    auto asked = with_size<xla::NewError>();
    asked.message = message, asked.code = code;
    return frame.api->make_error(&asked);
}

i64 bytes_of(xla::DataType type) {
    using T = xla::DataType;
    switch (type) {
        case T::PRED:
        case T::S8:
        case T::U8: return 1;
        case T::S16:
        case T::U16:
        case T::F16:
        case T::BF16: return 2;
        case T::S32:
        case T::U32:
        case T::F32: return 4;
        case T::S64:
        case T::U64:
        case T::F64:
        case T::C64: return 8;
        case T::C128: return 16;
    }
    throw std::invalid_argument("a buffer has a type that the engine does not compute with");
}

// So many threads as XLA has for the work inside of one operation, and no more than `set_num_threads` allows.
int threads_of(const xla::CallFrame &frame) {
    std::int64_t threads = 1;
    auto asked = with_size<xla::NumThreads>();
    asked.context = frame.context, asked.threads = &threads;
    if (xla::Error *none = frame.api->num_threads(&asked)) {  // there is no pool of threads
        auto old = with_size<xla::OldError>();
        old.error = none;
        frame.api->destroy_error(&old);
        threads = 1;
    }
    return static_cast<int>(std::clamp<std::int64_t>(threads, 1, get_num_threads()));
}

// XLA asks for the memory of a large result anew at every call. In large pages it is there with few faults; what is
// there already stays as it is.
void ask_for_large_pages(const Array &result) {
#ifdef MADV_HUGEPAGE
    constexpr std::uintptr_t PAGE = std::uintptr_t{1} << 21;
    const auto begin = reinterpret_cast<std::uintptr_t>(result.data);
    const std::uintptr_t first = (begin + PAGE - 1) / PAGE * PAGE, last = (begin + result.bytes) / PAGE * PAGE;
    if (last > first + PAGE) madvise(reinterpret_cast<void *>(first), last - first, MADV_HUGEPAGE);
#else
    (void)result;
#endif
}

class Call {
  public:
    explicit Call(const xla::CallFrame &frame) : frame(frame), pool(pool_of(plan())), manner{threads_of(frame), ""} {}

    void forward() const {
        count(1, 1);
        pool->forward(argument(0, pool->input_type()), result(0, size_of(pool->result_type())), manner);
    }

    void linearize() const {
        count(1, 2);
        pool->linearize(argument(0, pool->input_type()), result(0, size_of(pool->result_type())),
                        result(1, pool->winner_bytes()), manner);
    }

    // push or pull: a tangent or a cotangent, and then what the derivative keeps: x, y or the winners.
    template <auto OPERATION>
    void apply() const {
        const Residual &kept = pool->residual();
        count(1 + kept.x + kept.y + kept.winners, 1);
        i64 next = 1;
        const Array x = kept.x ? argument(next++, pool->input_type()) : Array{};
        const Array y = kept.y ? argument(next++, pool->result_type()) : Array{};
        const Array winners = kept.winners ? memory(frame.arguments.values[next++], pool->winner_bytes()) : Array{};
        const Array from = argument(0, pool->derivative_type()), to = result(0, size_of(pool->derivative_type()));
        ((*pool).*OPERATION)(x, y, winners, from, to, manner);
    }

  private:
    const xla::CallFrame &frame;
    const std::shared_ptr<const PlannedPool> pool;
    const Manner manner;

    std::string_view plan() const {
        const xla::Attributes &given = frame.attributes;
        for (i64 i = 0; i < given.count; ++i) {
            const std::string_view name(given.names[i]->data, given.names[i]->length);
            if (name != "plan" || given.types[i] != xla::Attributes::TEXT) continue;
            const auto &text = *static_cast<const xla::Bytes *>(given.values[i]);
            return {text.data, text.length};
        }
        not_a_plan("there is none");
    }

    void count(i64 arguments, i64 results) const {
        if (frame.arguments.count != arguments || frame.results.count != results)
            throw std::invalid_argument("the operation takes " + std::to_string(arguments) + " arrays and gives " +
                                        std::to_string(results));
    }

    Array argument(i64 i, Type type) const { return memory(frame.arguments.values[i], size_of(type)); }
    Array result(i64 i, i64 element_bytes) const {
        const Array made = memory(frame.results.values[i], element_bytes);
        ask_for_large_pages(made);
        return made;
    }

    // A complex number is two elements.
    static Array memory(const void *buffer, i64 element_bytes) {
        const auto &given = *static_cast<const xla::Buffer *>(buffer);
        i64 bytes = bytes_of(given.dtype);
        for (i64 d = 0; d < given.rank; ++d) bytes *= given.dims[d];
        return {given.data, bytes, element_bytes};
    }
};

// A question instead of a call: with which version of the interface the handler was built.
bool is_answered(const xla::CallFrame &frame) {
    xla::Extension *asked = frame.head.extensions;
    if (!asked || asked->type != xla::Extension::METADATA) return false;
    xla::Metadata &metadata = *reinterpret_cast<xla::MetadataExtension *>(asked)->metadata;
    metadata.version.major_version = xla::MAJOR_VERSION, metadata.version.minor_version = xla::MINOR_VERSION;
    metadata.traits = 0;
    return true;
}

template <auto OPERATION>
xla::Error *handle(xla::CallFrame *frame) {
    if (is_answered(*frame) || frame->stage != xla::Stage::EXECUTE) return nullptr;
    try {
        (Call(*frame).*OPERATION)();
        return nullptr;
    } catch (const std::invalid_argument &wrong) {
        return error(*frame, xla::NewError::INVALID_ARGUMENT, wrong.what());
    } catch (const std::bad_alloc &none) {
        return error(*frame, xla::NewError::RESOURCE_EXHAUSTED, none.what());
    } catch (const std::exception &wrong) {
        return error(*frame, xla::NewError::INTERNAL, wrong.what());
    }
}

nb::dict xla_handlers() {
    const auto capsule = [](xla::Handler *handler) { return nb::capsule(reinterpret_cast<const void *>(handler)); };
    nb::dict found;
    found["forward"] = capsule(handle<&Call::forward>);
    found["linearize"] = capsule(handle<&Call::linearize>);
    found["push"] = capsule(handle<&Call::apply<&PlannedPool::push>>);
    found["pull"] = capsule(handle<&Call::apply<&PlannedPool::pull>>);
    return found;
}

}  // namespace

void bind_xla(nb::module_ &m) {
    m.def("xla_handlers", &xla_handlers, "What XLA calls for each operation of a plan, as capsules.");
}

}  // namespace ndpool
