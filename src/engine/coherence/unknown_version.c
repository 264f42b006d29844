/*
 * unknown_version.c - a copy of a version that its homes do not know
 *
 * Its owner may be on its way to tell them, so one answer is not enough. The copy goes when
 * they have said it for some time: nobody would tell this node of the next version.
 */
#include "engine/coherence/unknown_version.h"

#include "engine/coherence/invalidate.h"
#include "util/log.h"

bool unknown_version_is_sure(struct unknown_version *unknown)
{
    uint64_t now = util_clock_now();

    if (!unknown->since)
        unknown->since = now;
    return ++unknown->answers >= UNKNOWN_VERSION_EACH &&
           now >= unknown->since + UNKNOWN_VERSION_TIME;
}

uint64_t unknown_version_by(const struct unknown_version *unknown)
{
    uint64_t sure = unknown->since + UNKNOWN_VERSION_TIME;

    return unknown->since && util_clock_now() < sure ? sure : 0;
}

void unknown_version_drop(struct member *member, const char *upath,
                          const struct dyad_version *version)
{
    struct dyad_entry entry = {
        .upath = upath, .state = DYAD_ENTRY_WITHDRAWN, .version = *version};

    log_info(
        "no home knows of the version of \"%s\" that this node has a copy of: it is "
        "removed",
        upath);
    entry.version.incarnation++;
    produce_invalidate(member, &entry, 0);
    dht_node_let_go(member->dht, &entry);
}
