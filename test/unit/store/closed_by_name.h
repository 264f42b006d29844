/*
 * closed_by_name.h - for tests and the benchmark of the marks
 */
#ifndef DYAD_TEST_STORE_CLOSED_BY_NAME_H
#define DYAD_TEST_STORE_CLOSED_BY_NAME_H

#include <fcntl.h>
#include <stdbool.h>
#include <unistd.h>

#include "store/dmd.h"
#include "store/marks.h"

/* store_marks_closed() with a probe that is opened by the file's name, as its process could
 * have before the close. */
static inline bool closed_by_name(struct store_marks *marks, store_mark_t mark,
                                  const struct store_dir *dir, const char *upath,
                                  bool last_anyway)
{
    int probe = upath ? store_dir_open(dir, upath, O_RDONLY, 0) : -1;
    bool last;

    if (probe < 0 && upath)
        probe = store_dir_open(dir, upath, O_WRONLY, 0);
    last = store_marks_closed(marks, mark, probe, last_anyway);
    if (probe >= 0)
        close(probe);
    return last;
}

#endif
