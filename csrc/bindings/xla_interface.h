// What XLA's foreign function interface hands to a handler, at version 0.1: the oldest that every XLA with the
// interface knows. Later versions add members at the ends, which nobody here looks at, and take handlers of older ones.
//
// A handler gets one CallFrame, with buffers, attributes and a table of XLA's own functions, and answers with no error
// or with one that the table made.
#pragma once
#include <cstddef>
#include <cstdint>

namespace ndpool::xla {

constexpr int MAJOR_VERSION = 0, MINOR_VERSION = 1;

struct Context;  // of one execution
struct Error;

// Asks for something beside a call, or for something else than a call.
struct Extension {
    enum Type : int { METADATA = 1 };
    std::size_t size;
    Type type;
    Extension *next;
};

// What every structure begins with: its size, as whoever made it knows it.
struct Head {
    std::size_t size;
    Extension *extensions;
};

struct Version {
    Head head;
    int major_version, minor_version;
};

struct Metadata {
    std::size_t size;
    Version version;
    std::uint32_t traits;
};

struct MetadataExtension {
    Extension base;
    Metadata *metadata;
};

// --- what a call has ------------------------------------------------------------------------------

enum class DataType : int {
    PRED = 1,
    S8 = 2,
    S16 = 3,
    S32 = 4,
    S64 = 5,
    U8 = 6,
    U16 = 7,
    U32 = 8,
    U64 = 9,
    F16 = 10,
    F32 = 11,
    F64 = 12,
    C64 = 15,
    BF16 = 16,
    C128 = 18,
};

struct Buffer {
    Head head;
    DataType dtype;
    void *data;
    std::int64_t rank;
    const std::int64_t *dims;
};

// A text without an end mark.
struct Bytes {
    const char *data;
    std::size_t length;
};

// Arguments or results; a buffer is of type 1.
struct Buffers {
    Head head;
    std::int64_t count;
    const int *types;
    void **values;
};

struct Attributes {
    enum Type : int { TEXT = 4 };
    Head head;
    std::int64_t count;
    const Type *types;
    const Bytes *const *names;
    void *const *values;
};

enum class Stage : int { INSTANTIATE = 0, PREPARE = 1, INITIALIZE = 2, EXECUTE = 3 };

// --- XLA's functions ------------------------------------------------------------------------------

struct NewError {
    enum Code : int { INVALID_ARGUMENT = 3, RESOURCE_EXHAUSTED = 8, INTERNAL = 13 };
    Head head;
    const char *message;
    Code code;
};

struct OldError {
    Head head;
    Error *error;
};

struct NumThreads {
    Head head;
    Context *context;
    std::int64_t *threads;
};

struct Api {
    Head head;
    Version version;
    const void *internal;
    Error *(*make_error)(NewError *);
    void *error_message;
    void (*destroy_error)(OldError *);
    void *register_handler, *stream, *register_type, *context, *set_state, *state, *allocate, *free, *schedule;
    Error *(*num_threads)(NumThreads *);
};

struct CallFrame {
    Head head;
    const Api *api;
    Context *context;
    Stage stage;
    Buffers arguments, results;
    Attributes attributes;
};

using Handler = Error *(CallFrame *);

}  // namespace ndpool::xla
