// For clang-tidy alone: LibTorch 1.13 holds std::vector<IValue> while IValue is incomplete. In C++20 libstdc++'s vector
// is constexpr, clang then instantiates it too early and gives up; GCC does not. So clang sees the vector of C++17.
#include <string>
#pragma push_macro("_GLIBCXX20_CONSTEXPR")
#undef _GLIBCXX20_CONSTEXPR
#define _GLIBCXX20_CONSTEXPR
#define __fill_a1 __fill_a1_of_bits  // already declared constexpr
#include <vector>
#undef __fill_a1
#pragma pop_macro("_GLIBCXX20_CONSTEXPR")
