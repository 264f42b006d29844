/*
 * wrapper/mpi_file.h - files that MPI_File_open makes
 */
#ifndef DYAD_WRAPPER_MPI_FILE_H
#define DYAD_WRAPPER_MPI_FILE_H

#include <stdbool.h>

/* fd, which is tracked, is about to be closed by the calling thread. True: that is in an
 * MPI_File_open; the descriptor is free, and its file open for writing until that returns. Keeps
 * errno. */
bool wrapper_mpi_file_keep(int fd);
/* True if the calling thread is in an MPI_File_open. */
bool wrapper_mpi_file_opens(void);

#endif
