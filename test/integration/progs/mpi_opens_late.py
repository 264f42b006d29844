"""Three ranks change one file, which each opens by itself (MPI_COMM_SELF): rank 0 has closed it, and so published
it, when rank 2 opens it, while rank 1 has it open since before. All of it is there when all have closed it.

mpi_opens_late.py: W, SSD, PMIX_RANK as in the other tests."""
import ctypes
import os

from ranks import barrier

SSD, me = os.environ["SSD"], int(os.environ["PMIX_RANK"])
sync = barrier("late", 3)
ctypes.CDLL("libmpi.so.40", mode=ctypes.RTLD_GLOBAL)
mpi = ctypes.CDLL(None)  # what is preloaded comes first
SELF, NONE, BYTE = (ctypes.c_void_p(ctypes.addressof(ctypes.c_char.in_dll(mpi, f"ompi_mpi_{what}")))
                    for what in ("comm_self", "info_null", "byte"))
RDWR = 8  # MPI_MODE_RDWR


def opened(path):
    file = ctypes.c_void_p()
    assert mpi.MPI_File_open(SELF, path.encode(), RDWR, NONE, ctypes.byref(file)) == 0
    return file


def write(file, offset, data):
    assert mpi.MPI_File_write_at(file, ctypes.c_longlong(offset), data, len(data), BYTE, None) == 0


def close(file):
    assert mpi.MPI_File_close(ctypes.byref(file)) == 0


assert mpi.MPI_Init(None, None) == 0
for n in range(4):
    path = f"{SSD}/late.{n}"
    if me == 0:
        with open(path, "wb") as f:
            f.write(b"." * 10000)
    sync()
    file = opened(path) if me < 2 else None
    sync()
    if me == 0:
        write(file, 10000, b"0" * 5000)
        close(file)
    sync()
    if me == 2:
        file = opened(path)
        write(file, 15000, b"2" * 5000)
    sync()
    if me == 1:
        write(file, 2000, b"1" * 1000)
    sync()
    for rank in (1, 2) if n % 2 else (2, 1):
        if rank == me:
            close(file)
        sync()
    with open(path, "rb") as f:
        have = f.read()
    assert have == b"." * 2000 + b"1" * 1000 + b"." * 7000 + b"0" * 5000 + b"2" * 5000, (n, len(have))
    sync()
assert mpi.MPI_Finalize() == 0
