/*
 * module.c - events, from a module to all that are above it
 *
 * A promoted guest has no table (promoted_guest.c): there nothing is called.
 */
#include "engine/core/module.h"

#include <stdlib.h>
#include <string.h>

#include "engine/core/member.h"
#include "net/msg.h"

#define FOREACH(member, m) \
    for (const struct member_module *const *m = (member)->modules; m && *m; m++)

#define CALL(member, event, ...)      \
    FOREACH(member, m)                \
    {                                 \
        if ((*m)->event)              \
            (*m)->event(__VA_ARGS__); \
    }

/* Ends the function: does one of them say so? */
#define RETURN_ANY(member, event, ...)                   \
    do {                                                 \
        FOREACH(member, m)                               \
        {                                                \
            if ((*m)->event && (*m)->event(__VA_ARGS__)) \
                return true;                             \
        }                                                \
        return false;                                    \
    } while (0)

/* The last that was entered is the first that is left. */
#define CALL_REVERSED(member, event)                                \
    do {                                                            \
        const struct member_module *const *all = (member)->modules; \
        size_t n = 0;                                               \
        while (all && all[n])                                       \
            n++;                                                    \
        while (n-- > 0) {                                           \
            if (all[n]->event)                                      \
                all[n]->event(member);                              \
        }                                                           \
    } while (0)

/* So that a message walks over no modules. */
struct receivers {
    uint8_t first[NET_MSG_TYPE_END + 1]; /* of `messages`, up to the next type's */
    const struct member_message *messages[UINT8_MAX];
};

static struct receivers *receivers_create(const struct member_module *const *table)
{
    struct receivers *to = calloc(1, sizeof(*to));
    size_t n = 0;

    for (unsigned type = 0; to && type < NET_MSG_TYPE_END; type++) {
        to->first[type] = (uint8_t)n;
        for (const struct member_module *const *m = table; *m; m++) {
            const struct member_message *message = (*m)->messages;
            for (; message && message->type; message++)
                if (message->type == type)
                    to->messages[n++] = message;
        }
    }
    if (to)
        to->first[NET_MSG_TYPE_END] = (uint8_t)n;
    return to;
}

int modules_create(struct member *member, const struct member_module *const *table)
{
    if (!(member->receivers = receivers_create(table)))
        return -1;
    for (; *table; table++) {
        const struct module_own *own = &(*table)->own;
        if (own->size > 0 && !(member->own[own->id] = calloc(1, own->size))) {
            modules_free(member);
            return -1;
        }
    }
    return 0;
}

void modules_free(struct member *member)
{
    for (int id = 0; id < MODULE_COUNT; id++)
        free(member->own[id]);
    free(member->receivers);
}

int modules_sized(struct member *member)
{
    FOREACH(member, m)
    {
        if ((*m)->sized && (*m)->sized(member) < 0)
            return -1;
    }
    return 0;
}

int modules_start(struct member *member)
{
    FOREACH(member, m)
    {
        if ((*m)->start && (*m)->start(member) < 0)
            return -1;
    }
    return 0;
}

void modules_joined(struct member *member)
{
    CALL(member, joined, member);
}

void modules_exiting(struct member *member, bool soon)
{
    CALL(member, exiting, member, soon);
}

bool modules_leave(struct member *member, bool for_good)
{
    RETURN_ANY(member, leave, member, for_good);
}

bool modules_receive(struct member *member, const struct net_msg *msg, void **payload,
                     size_t len)
{
    const struct receivers *to = member->receivers;

    for (unsigned i = to->first[msg->type]; i < to->first[msg->type + 1]; i++)
        if (to->messages[i]->fn(member, msg, payload, len))
            return true;
    return false;
}

void modules_peer_up(struct member *member, const struct net_peer *peer)
{
    CALL(member, peer_up, member, peer);
}

void modules_peer_down(struct member *member, uint32_t rank)
{
    CALL(member, peer_down, member, rank);
}

void modules_peer_left(struct member *member, const struct net_peer *peer)
{
    CALL(member, peer_left, member, peer);
}

void modules_rank_changed(struct member *member, uint32_t rank,
                          enum member_rank_change change)
{
    CALL(member, rank_changed, member, rank, change);
}

void modules_homes_changed(struct member *member)
{
    CALL(member, homes_changed, member);
}

void modules_resumed(struct member *member, uint64_t ns)
{
    CALL(member, resumed, member, ns);
}

void modules_table_changed(struct member *member)
{
    CALL(member, table_changed, member);
}

void modules_published(struct member *member, const char *upath)
{
    CALL(member, published, member, upath);
}

void modules_path_changed(struct member *member, const char *upath)
{
    CALL(member, path_changed, member, upath);
}

void modules_fetch_grew(struct member *member, const char *upath)
{
    CALL(member, fetch_grew, member, upath);
}

void modules_invalidated(struct member *member)
{
    CALL(member, invalidated, member);
}

void modules_wanted(struct member *member, const struct dyad_entry *entry)
{
    CALL(member, wanted, member, entry);
}

bool modules_overtaken(struct member *member, struct member_dmd *dmd,
                       const struct dyad_entry *newer, const struct store_record *record)
{
    RETURN_ANY(member, overtaken, member, dmd, newer, record);
}

bool modules_to_come_back(struct member *member, const char *upath)
{
    RETURN_ANY(member, to_come_back, member, upath);
}

bool modules_pending(struct member *member)
{
    RETURN_ANY(member, pending, member);
}

bool modules_urgent(struct member *member)
{
    RETURN_ANY(member, urgent, member);
}

void modules_void_promises(struct member *member)
{
    CALL(member, void_promises, member);
}

void modules_shut(struct member *member)
{
    CALL_REVERSED(member, shut);
}

void modules_stop(struct member *member)
{
    CALL_REVERSED(member, stop);
}

void modules_destroy(struct member *member)
{
    const struct member_module *const *all = member->modules;
    size_t n = 0;

    while (all && all[n])
        n++;
    while (n-- > 0) {
        const struct module_own *own = &all[n]->own;
        if (!all[n]->destroy)
            continue;
        all[n]->destroy(member);
        if (own->size > 0)
            memset(member->own[own->id], 0, own->size);
    }
}
