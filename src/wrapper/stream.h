/*
 * wrapper/stream.h - what libc reads and writes for its streams
 */
#ifndef DYAD_WRAPPER_STREAM_H
#define DYAD_WRAPPER_STREAM_H

#include <stdio.h>
#include <sys/types.h>

/* Have them call `ours`, from now on; once, before main. If that cannot be
 * had what is written by a stream is not recorded (wrapper_fd_unrecord_stream()). */
struct wrapper_streams {
    ssize_t (*read)(FILE *stream, void *data, ssize_t len);
    ssize_t (*write)(FILE *stream, const void *data, ssize_t len);
    off64_t (*seek)(FILE *stream, off64_t offset, int whence);
    int (*stat)(FILE *stream, void *st);
};
void wrapper_streams_begin(const struct wrapper_streams *ours);

/* Of libc; only called by ours. */
extern ssize_t (*wrapper_stream_real_read)(FILE *stream, void *data, ssize_t len);
extern ssize_t (*wrapper_stream_real_write)(FILE *stream, const void *data, ssize_t len);
extern off64_t (*wrapper_stream_real_seek)(FILE *stream, off64_t offset, int whence);
extern int (*wrapper_stream_real_stat)(FILE *stream, void *st);

/* Ours: write.c, read.c. */
ssize_t wrapper_stream_read(FILE *stream, void *data, ssize_t len);
ssize_t wrapper_stream_write(FILE *stream, const void *data, ssize_t len);
off64_t wrapper_stream_seek(FILE *stream, off64_t offset, int whence);
int wrapper_stream_stat(FILE *stream, void *st);

#endif
