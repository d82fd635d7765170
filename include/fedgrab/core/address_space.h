/// A limit on the address space of the process (`ulimit -v`).
#pragma once

namespace fedgrab {

/// Where there is a limit: takes the working memory of OpenBLAS for so many threads now. Later OpenBLAS would try
/// without end to get what the limit does not allow. Throws an Error where the limit does not allow it.
void reserve_blas_memory(int threads);

}  // namespace fedgrab
