/*
 * bench_marks.c - what a dirty mark costs: bench_marks [DIRECTORY [ROUNDS]]
 *
 * Each line: nanoseconds per operation. "bare" is what the program pays without marks.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/dmd.h"
#include "store/marks.h"

#include "../unit/store/closed_by_name.h"
#include "util/clock.h"

static unsigned long rounds = 20000;

static void show(const char *what, uint64_t start, unsigned long count)
{
    printf("%-44s %8.0f ns\n", what, (double)(util_clock_now() - start) / (double)count);
}

int main(int argc, char **argv)
{
    char path[256], file[300];
    unsigned long failures = 0;
    uint64_t start;

    snprintf(path, sizeof(path), "%.200s/bench-marks-XXXXXX", argc > 1 ? argv[1] : "/tmp");
    if (argc > 2)
        rounds = strtoul(argv[2], NULL, 10);
    if (rounds == 0 || !mkdtemp(path)) {
        perror(path);
        return 1;
    }
    struct store_dir *dir = store_dir_create(path);
    struct store_marks *marks = dir ? store_marks_create(dir) : NULL;
    if (!marks)
        return 1;
    snprintf(file, sizeof(file), "%s/file", path);
    close(open(file, O_WRONLY | O_CREAT, 0644));

    start = util_clock_now();
    for (unsigned long i = 0; i < rounds; i++) {
        int fd = open(file, O_WRONLY);
        failures += fd < 0;
        close(fd);
    }
    show("bare open + close", start, rounds);

    start = util_clock_now();
    for (unsigned long i = 0; i < rounds; i++) {
        store_mark_t mark = store_marks_begin(marks, "file");
        int fd = open(file, O_WRONLY);
        failures += store_marks_opened(marks, mark, fd, false) < 0;
        close(fd);
        failures += !closed_by_name(marks, mark, dir, "file", false);
        store_marks_clear(marks, mark);
    }
    show("begin + open + opened + close + closed + clear", start, rounds);

    start = util_clock_now();
    for (unsigned long i = 0; i < rounds; i++)
        store_marks_abort(marks, store_marks_begin(marks, "file"));
    show("begin + abort", start, rounds);

    start = util_clock_now();
    for (unsigned long i = 0; i < 50 * rounds; i++)
        failures +=
            store_marks_dirty(marks, "directory/another-file.dat", 1000 + i, 1, NULL);
    show("dirty, nothing marked", start, 50 * rounds);

    for (int open_files = 10; open_files <= 1000; open_files *= 10) {
        store_mark_t list[1000];
        char what[64], upath[32];
        for (int i = 0; i < open_files; i++) {
            snprintf(upath, sizeof(upath), "f%d", i);
            list[i] = store_marks_begin(marks, upath);
        }
        snprintf(what, sizeof(what), "dirty, %d others marked, a miss", open_files);
        start = util_clock_now();
        for (unsigned long i = 0; i < rounds; i++) {
            snprintf(upath, sizeof(upath), "g%lu", i);
            failures += store_marks_dirty(marks, upath, 1000 + i, 1, NULL);
        }
        show(what, start, rounds);
        snprintf(what, sizeof(what), "dirty, %d marked, the last one hit", open_files);
        snprintf(upath, sizeof(upath), "f%d", open_files - 1);
        start = util_clock_now();
        for (unsigned long i = 0; i < rounds; i++)
            failures += !store_marks_dirty(marks, upath, 1, 1, NULL);
        show(what, start, rounds);
        for (int i = 0; i < open_files; i++)
            store_marks_abort(marks, list[i]);
    }
    store_marks_destroy(marks);
    store_dir_destroy(dir);
    /* What was made is only this. */
    snprintf(file, sizeof(file), "rm -rf '%s'", path);
    if (system(file) != 0)
        failures++;
    if (failures)
        printf("%lu operations failed\n", failures);
    return failures != 0;
}
