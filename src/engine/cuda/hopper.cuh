/// Instructions of compute capability 9.0: barriers in shared memory, bulk tensor copies (TMA) and warp-group matrix
/// products (wgmma). All tiles lie in rows of 128 bytes whose 16-byte chunks are permuted by the row (the 128-byte
/// swizzle): chunk c of the row at address 128 r lies at c ^ (r mod 8). The permutation depends on the address alone,
/// so that a product may begin at any row of a tile.
#pragma once

#include <cuda.h>

#include <cstdint>

namespace fedgrab::cuda {

/// wgmma needs code for sm_90a; other passes of the compiler leave the kernels empty.
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define FEDGRAB_HOPPER_CODE
#endif

__device__ inline uint32_t shared_address(const void* p) { return static_cast<uint32_t>(__cvta_generic_to_shared(p)); }

// A barrier of one arrival and the bytes that it expects; waiters name the parity of the phase that they wait for.

__device__ inline void barrier_init(uint64_t* barrier) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;\n" ::"r"(shared_address(barrier)));
}
/// After barrier_init(), by the same thread: makes the barriers visible to bulk copies.
__device__ inline void barriers_ready() { asm volatile("fence.mbarrier_init.release.cluster;\n"); }
__device__ inline void barrier_expect(uint64_t* barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;\n" ::"r"(shared_address(barrier)), "r"(bytes)
               : "memory");
}
__device__ inline void barrier_wait(uint64_t* barrier, int parity) {
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "again:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra again;\n"
      "}\n" ::"r"(shared_address(barrier)),
      "r"(parity)
      : "memory");
}

__device__ inline void copy_box(void* to, const CUtensorMap& map, uint64_t* barrier, int c0, int c1, int c2) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5}], [%2];\n" ::
          "r"(shared_address(to)),
      "l"(&map), "r"(shared_address(barrier)), "r"(c0), "r"(c1), "r"(c2)
      : "memory");
}
__device__ inline void copy_box(void* to, const CUtensorMap& map, uint64_t* barrier, int c0, int c1, int c2, int c3) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6}], "
      "[%2];\n" ::"r"(shared_address(to)),
      "l"(&map), "r"(shared_address(barrier)), "r"(c0), "r"(c1), "r"(c2), "r"(c3)
      : "memory");
}

/// Shared memory that ordinary stores wrote, before copies read it: by each thread that wrote, ahead of a barrier.
__device__ inline void stores_ready() { asm volatile("fence.proxy.async.shared::cta;\n" ::: "memory"); }
__device__ inline void store_box(const void* from, const CUtensorMap& map, int c0, int c1, int c2, int c3) {
  asm volatile("cp.async.bulk.tensor.4d.global.shared::cta.bulk_group [%0, {%2, %3, %4, %5}], [%1];\n" ::"l"(&map),
               "r"(shared_address(from)), "r"(c0), "r"(c1), "r"(c2), "r"(c3)
               : "memory");
}
/// By the thread that stored: shared memory is free again.
__device__ inline void boxes_stored() {
  asm volatile("cp.async.bulk.commit_group;\ncp.async.bulk.wait_group.read 0;\n" ::: "memory");
}

/// An operand in shared memory. Summed index along the row: `group` is the distance of groups of eight rows. Across
/// (each row is one summed index): `block` is the distance of blocks of 64 columns, `group` that of groups of eight
/// summed indices.
__device__ inline uint64_t operand(uint32_t address, int block, int group) {
  return uint64_t{1} << 62 | static_cast<uint64_t>(group >> 4) << 32 | static_cast<uint64_t>(block >> 4) << 16 |
         (address & 0x3FFFF) >> 4;
}

#ifdef FEDGRAB_HOPPER_CODE
__device__ inline void products_begin() { asm volatile("wgmma.fence.sync.aligned;\n" ::: "memory"); }
__device__ inline void products_commit() { asm volatile("wgmma.commit_group.sync.aligned;\n" ::: "memory"); }
template <int pending>
__device__ inline void products_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;\n" ::"n"(pending) : "memory");
}

#define FEDGRAB_8(d, i)                                                                                       \
  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), "+f"(d[i + 6]), \
      "+f"(d[i + 7])
#define FEDGRAB_32(d, i) FEDGRAB_8(d, i), FEDGRAB_8(d, i + 8), FEDGRAB_8(d, i + 16), FEDGRAB_8(d, i + 24)

/// d = A · B over 16 summed indices, or d += with `add`: A has 64 rows, B has 64, 128 or 192 columns. `across`: how
/// each operand lies. The sum is never set to zero by other instructions: the compiler would wait for each product.
template <bool a_across, bool b_across>
__device__ inline void multiply(float (&d)[32], uint64_t a, uint64_t b, bool add) {
  asm volatile(
      "{\n.reg .pred add;\nsetp.ne.b32 add, %36, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
      "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,"
      "%30,%31}, %32, %33, add, 1, 1, %34, %35;\n}\n"
      : FEDGRAB_32(d, 0)
      : "l"(a), "l"(b), "n"(int{a_across}), "n"(int{b_across}), "r"(int{add}));
}
template <bool a_across, bool b_across>
__device__ inline void multiply(float (&d)[64], uint64_t a, uint64_t b, bool add) {
  asm volatile(
      "{\n.reg .pred add;\nsetp.ne.b32 add, %68, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 "
      "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,"
      "%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,"
      "%58,%59,%60,%61,%62,%63}, %64, %65, add, 1, 1, %66, %67;\n}\n"
      : FEDGRAB_32(d, 0), FEDGRAB_32(d, 32)
      : "l"(a), "l"(b), "n"(int{a_across}), "n"(int{b_across}), "r"(int{add}));
}
template <bool a_across, bool b_across>
__device__ inline void multiply(float (&d)[96], uint64_t a, uint64_t b, bool add) {
  asm volatile(
      "{\n.reg .pred add;\nsetp.ne.b32 add, %100, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n192k16.f32.bf16.bf16 "
      "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,"
      "%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,"
      "%58,%59,%60,%61,%62,%63,%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79,%80,%81,%82,%83,%84,%85,"
      "%86,%87,%88,%89,%90,%91,%92,%93,%94,%95}, %96, %97, add, 1, 1, %98, %99;\n}\n"
      : FEDGRAB_32(d, 0), FEDGRAB_32(d, 32), FEDGRAB_32(d, 64)
      : "l"(a), "l"(b), "n"(int{a_across}), "n"(int{b_across}), "r"(int{add}));
}
#undef FEDGRAB_32
#undef FEDGRAB_8
#endif

}  // namespace fedgrab::cuda
