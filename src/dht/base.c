/*
 * dht/base.c - whether a writer has seen the version that it is about to replace
 *
 * Of a file that was changed in part, size and mtime name the version: a fetched copy has
 * those of the original, to the second where a file system keeps no more. Which node opened
 * or published first does not count, nor do clocks. Versions that one node makes within a
 * tick of its kernel's clock may have the same mtime; but the writer's node has one of them,
 * and is told of the next before that is acknowledged (OVERTAKEN: store_marks_overtaken()).
 * Of a file that was emptied or made, the times tell, as far as the nodes' clocks agree: a
 * version's counter is not below its publisher's clock (node_publish.c).
 */
#include "dht/base.h"

#include "util/clock.h"

static bool is_of(const struct dyad_base *base, const struct dyad_entry *entry)
{
    uint64_t sec = (uint64_t)entry->mtime_sec, whole = sec * UTIL_NSEC_PER_SEC;

    return base->size == entry->size &&
           (base->time == whole + entry->mtime_nsec || base->time == whole);
}

struct dyad_base dht_base_from(const struct dyad_entry *found)
{
    return (struct dyad_base){
        .kind = DYAD_BASE_FROM,
        .size = found->size,
        .time = (uint64_t)found->mtime_sec * UTIL_NSEC_PER_SEC + found->mtime_nsec};
}

struct dyad_base dht_base_of(const struct stat *file)
{
    return (struct dyad_base){.kind = DYAD_BASE_FROM,
                              .size = (uint64_t)file->st_size,
                              .time = (uint64_t)file->st_mtim.tv_sec * UTIL_NSEC_PER_SEC +
                                      (uint64_t)file->st_mtim.tv_nsec};
}

struct dyad_base dht_base_version(const struct dyad_version *version)
{
    return (struct dyad_base){.kind = DYAD_BASE_VERSION,
                              .size = (uint64_t)version->rank << 32 | version->incarnation,
                              .time = version->counter};
}

/* Of an empty file that was empty before nothing is lost, unless a writer has emptied it. */
static bool has_content(const struct dyad_entry *entry)
{
    return entry->size > 0 || entry->emptied;
}

bool dht_base_is_other(const struct dyad_base *base, const struct dyad_entry *there)
{
    return base->kind == DYAD_BASE_FROM && there->state == DYAD_ENTRY_PUBLISHED &&
           S_ISREG(there->mode) && !there->conflict &&
           (has_content(there) || base->size > 0) && !is_of(base, there);
}

bool dht_base_is_behind(const struct dyad_base *base, const struct dyad_entry *entry,
                        const struct dyad_entry *there)
{
    if (!base->looks || entry->state != DYAD_ENTRY_PUBLISHED || !S_ISREG(entry->mode) ||
        there->state != DYAD_ENTRY_PUBLISHED || !S_ISREG(there->mode) ||
        there->owner == entry->owner || !dyad_storage_equal(there->storage, entry->storage))
        return false;
    if (there->mtime_sec != entry->mtime_sec)
        return there->mtime_sec > entry->mtime_sec;
    return there->mtime_nsec > entry->mtime_nsec ||
           (there->mtime_nsec == entry->mtime_nsec && there->size > entry->size);
}

bool dht_base_is_change(const struct dyad_base *base)
{
    return base->kind == DYAD_BASE_FROM || base->kind == DYAD_BASE_VERSION ||
           base->kind == DYAD_BASE_OVERTAKEN;
}

bool dht_base_is_removed(const struct dyad_base *base, const struct dyad_entry *there)
{
    return base->kind == DYAD_BASE_VERSION && there->state == DYAD_ENTRY_WITHDRAWN &&
           there->version.counter >= base->time;
}

bool dht_base_is_overtaken(const struct dyad_base *base, const struct dyad_entry *there,
                           const uint8_t *storage)
{
    if (dht_base_is_removed(base, there))
        return true;
    if (base->kind == DYAD_BASE_NONE || there->state != DYAD_ENTRY_PUBLISHED ||
        !S_ISREG(there->mode))
        return false;
    if (base->kind != DYAD_BASE_SINCE && there->conflict)
        return true;
    if (dyad_storage_equal(there->storage, storage))
        return false;
    if (base->kind == DYAD_BASE_VERSION)
        return base->time != there->version.counter ||
               base->size >> 32 != there->version.rank ||
               (uint32_t)base->size != there->version.incarnation;
    if (base->kind == DYAD_BASE_SINCE)
        return there->size > 0 && there->version.counter > base->time / 1000;
    return (has_content(there) || base->size > 0) &&
           (base->kind == DYAD_BASE_OVERTAKEN || !is_of(base, there));
}
