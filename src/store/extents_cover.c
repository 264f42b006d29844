/*
 * extents_cover.c - is all that a file has on its disk in the record of its writes?
 */
#include "store/extents_cover.h"

#include <string.h>
#include <unistd.h>

/* Of store_extents_cover(). */
struct cover {
    struct store_extents *extents;
    uint64_t ino, btime;
    const struct dyad_base *since;
    int fd;
};

/* Who maps a hole and reads it has tmpfs make pages of zeros. What is not zero may have been
 * written since the list was made: then the list has it that is made after it was read. */
static bool is_hole(void *arg, uint64_t offset, uint64_t length)
{
    static const char zeros[4096];
    const struct cover *cover = arg;

    for (uint64_t end = offset + length; offset < end;) {
        char have[sizeof(zeros)];
        size_t want = end - offset < sizeof(have) ? (size_t)(end - offset) : sizeof(have);
        ssize_t n = pread(cover->fd, have, want, (off_t)offset);
        struct store_extent part[] = {{.offset = offset, .length = want}, {0}};
        struct store_extent_list list, map = {.extent = part, .n = 1, .ncuts = 1};
        bool is = n >= 0 && memcmp(have, zeros, (size_t)n) == 0;
        if (!is && store_extents_list(cover->extents, cover->ino, cover->btime,
                                      cover->since, 0, 0, &list) == 0) {
            is = store_extent_list_covers(&list, &map, 0, NULL, NULL);
            store_extent_list_free(&list);
        }
        if (!is)
            return false;
        offset += want;
    }
    return true;
}

/* The file first: what it has by then was recorded before. */
bool store_extents_cover(struct store_extents *extents, uint64_t ino, uint64_t btime,
                         const struct dyad_base *since, int fd)
{
    struct cover cover = {extents, ino, btime, since, fd};
    struct store_extent_list map, list = {0};
    bool is;

    if (store_extent_list_of_file(&map, fd) < 0)
        return false;
    is = store_extents_list(extents, ino, btime, since, 0, 0, &list) == 0 &&
         store_extent_list_covers(&list, &map, since ? since->size : 0, is_hole, &cover);
    store_extent_list_free(&map);
    store_extent_list_free(&list);
    return is;
}
