"""MPI that is loaded late, as mpi4py does, after the first files were written and read: all to all.

Then children are forked while the engine's threads are busy: their exit runs the destructors of every library."""
import ctypes
import os
import signal
import sys
import threading

dmd = sys.argv[1]
rank, size = int(os.environ["PMIX_RANK"]), int(sys.argv[2])


def exchange(turn):
    with open(f"{dmd}/{turn}.{rank}", "w") as out:
        out.write(f"{turn} {rank}\n" * 1000)
    for other in range(size):
        with open(f"{dmd}/{turn}.{other}") as file:
            assert file.read() == f"{turn} {other}\n" * 1000, (turn, other)


exchange("before")
mpi = ctypes.CDLL("libmpi.so.40", mode=ctypes.RTLD_GLOBAL)
assert mpi.MPI_Init(None, None) == 0
exchange("during")
world = ctypes.c_void_p(ctypes.addressof(ctypes.c_char.in_dll(mpi, "ompi_mpi_comm_world")))
for _ in range(100):
    assert mpi.MPI_Barrier(world) == 0
assert mpi.MPI_Finalize() == 0
exchange("after")

done = threading.Event()


def write():
    n = 0
    while not done.is_set():
        with open(f"{dmd}/busy.{rank}.{n % 8}", "w") as out:
            out.write("x")
        n += 1


writer = threading.Thread(target=write)
writer.start()
signal.alarm(40)  # a child that does not end
for _ in range(100):
    child = os.fork()
    if child == 0:
        ctypes.CDLL(None).exit(0)
    assert os.waitpid(child, 0)[1] == 0
signal.alarm(0)
done.set()
writer.join()
if rank == 0:
    print(f"{size} ranks, 0 bad")
