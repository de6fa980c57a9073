// Wide windows that overlap: the first pooled axis by block prefixes and suffixes, then the others as ever.
//
// Cut the axis into blocks as long as the kernel (van Herk; Gil and Werman). A window is the end of one block and the
// beginning of the next: its value is a suffix of the one merged with a prefix of the other. That is three merges an
// output, whatever the kernel's side. Nothing is ever subtracted.
#pragma once
#include "passes/rows.h"

namespace ndpool {
namespace NDPOOL_LEVEL {

// The first pooled axis of one slab, columns begin..end-1: `in` is (length, rest), `out` (output, rest), its planes
// `plane` apart.
template <class P>
void slide(const P &p, const Axis &axis, const typename P::In *in, typename P::Lane *out, i64 plane, i64 rest,
           i64 begin, i64 end) {
    using Lane = typename P::Lane;
    constexpr int N = LANES<Lane>;
    using State = typename P::template State<N>;
    const i64 k = axis.kernel, width = end - begin, apart = width + N;
    const P own = p;
    const i64 near = (k + 1) * apart;  // from plane to plane of the block
    const Scratch<Lane> block(P::PLANES * near, "a block of cells");
    Lane *suffix = block.data();
    Lane *prefix = suffix + k * apart;
    // Merges the row of cells at a place with `more`, if there is any, into `to`. The next place will be `place +
    // step`.
    auto merge_cells = [&](i64 place, i64 step, const Lane *more, Lane *to) {
        const i64 cell = place - axis.pad_lo;
        if (cell < 0 || cell >= axis.length) {
            for (i64 i = 0; i < width; i += N)
                P::template put<N>(to + i, near, more ? P::template get<N>(more + i, near) : P::template empty<N>());
            return;
        }
        const typename P::In *from = in + cell * rest + begin;
        constexpr i64 ROWS_AHEAD = 8;
        const auto later = reinterpret_cast<std::uintptr_t>(from) +
                           static_cast<std::uintptr_t>(ROWS_AHEAD * step * rest) * sizeof(*from);
        auto block = [&](i64 i, State s) NDPOOL_INLINED {
            __builtin_prefetch(reinterpret_cast<const void *>(later + static_cast<std::uintptr_t>(i) * sizeof(*from)));
            if (more) own.template merge_any<N>(s, P::template get<N>(more + i, near));
            P::template put<N>(to + i, near, s);
        };
        // Not `blocks`: the prefix grows in place, and no element may be merged twice.
        i64 i = 0;
        for (; i + N <= width; i += N) block(i, own.template lift<N>(from + i, 0));
        if (i < width) block(i, lift_some<N>(own, from + i, 0, static_cast<int>(width - i)));
    };
    for (i64 block = 0; block * k <= (axis.output - 1) * axis.stride; ++block) {
        for (i64 q = k - 1; q >= 0; --q)
            merge_cells(block * k + q, -1, q < k - 1 ? suffix + (q + 1) * apart : nullptr, suffix + q * apart);
        i64 filled = 0;  // cells of the next block that the prefix has
        i64 first = (block * k + axis.stride - 1) / axis.stride;
        for (i64 o = first; o < axis.output && o * axis.stride < (block + 1) * k; ++o) {
            i64 q = o * axis.stride - block * k;
            for (; filled < q; ++filled) merge_cells((block + 1) * k + filled, 1, filled ? prefix : nullptr, prefix);
            Lane *to = out + o * rest + begin;
            const Lane *tail = suffix + q * apart;
            blocks<N>(width, [&](i64 i, int count) NDPOOL_INLINED {
                State s = P::template get<N>(tail + i, near);
                if (q) own.template merge_any<N>(s, P::template get<N>(prefix + i, near));
                if (count == N) return P::template put<N>(to + i, plane, s);
                Lane some[P::PLANES * N];
                P::template put<N>(some, N, s);
                for (int l = 0; l < P::PLANES * count; ++l)
                    to[l / count * plane + i + l % count] = some[l / count * N + l % count];
            });
        }
    }
}

}  // namespace NDPOOL_LEVEL
}  // namespace ndpool
