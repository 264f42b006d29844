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

/* Bytes of the file. */
struct part {
    uint64_t offset;
    char have[4096];
};

static bool is_zero(void *arg, uint64_t offset, uint64_t length)
{
    const struct part *part = arg;
    const char *have = part->have + (offset - part->offset);

    return have[0] == 0 && memcmp(have, have + 1, length - 1) == 0;
}

/* Who maps a hole and reads it has tmpfs make pages of zeros. What is not zero may have been
 * written since the list was made: then the list has it that is made after it was read. */
static bool is_hole(void *arg, uint64_t offset, uint64_t length)
{
    const struct cover *cover = arg;

    for (uint64_t end = offset + length; offset < end;) {
        struct part part = {.offset = offset};
        size_t want =
            end - offset < sizeof(part.have) ? (size_t)(end - offset) : sizeof(part.have);
        struct store_extent range[] = {{.offset = offset, .length = want}, {0}};
        struct store_extent_list list, map = {.extent = range, .n = 1, .ncuts = 1};
        bool is = pread(cover->fd, part.have, want, (off_t)offset) >= 0;
        if (is && !is_zero(&part, offset, want)) {
            is = store_extents_list(cover->extents, cover->ino, cover->btime, cover->since,
                                    0, 0, &list) == 0;
            if (is) {
                is = store_extent_list_covers(&list, &map, 0, is_zero, &part);
                store_extent_list_free(&list);
            }
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
