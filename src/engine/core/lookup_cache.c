/*
 * lookup_cache.c - the answers that the members of a node share: between the table and the
 * disk
 *
 * dht/node_lookup_cache.c says when an answer is true, store/cache_table.c how it is
 * shared. Here is said between whom: members of one session that have the same managed
 * directory. What makes a session is what makes a rank's number mean the same rank: the
 * job, this launch of it (a job's name comes again), and the name under which its members
 * find each other.
 */
#include <stdio.h>
#include <string.h>

#include "engine/core/member.h"
#include "engine/core/module.h"
#include "store/cache_table.h"
#include "util/log.h"

struct answers {
    struct store_answers *table; /* NULL: none are shared */
};

static void answers_open(struct member *member)
{
    const struct store_dir *dir = member->dmd[ENGINE_CONSUMER].dir;
    const char *found_by = member->config->kvs_namespace;
    char session[1024];
    int n;

    if (!dir)
        dir = member->dmd[ENGINE_PRODUCER].dir;
    if (!dir)
        return;
    n = snprintf(session, sizeof(session), "%s/%016llx/%u/%s", member->session,
                 (unsigned long long)member->launch, member->job->nranks,
                 found_by ? found_by : "");
    if (n < 0 || (size_t)n >= sizeof(session))
        return;
    OWN(member, answers)->table = store_answers_create(dir, session, (size_t)n);
    if (!OWN(member, answers)->table)
        log_info(
            "answers of look-ups are not shared between the ranks of this node: the "
            "table in %s/" STORE_CONTROL_DIR " cannot be used: %m",
            store_dir_path(dir));
}

static void answers_close(struct member *member)
{
    store_answers_destroy(OWN(member, answers)->table);
    OWN(member, answers)->table = NULL;
}

static bool answers_get(void *arg, const char *upath, uint64_t now,
                        struct dyad_answer *answer)
{
    struct member *member = arg;
    return OWN(member, answers)->table &&
           store_answers_get(OWN(member, answers)->table, upath, now, answer);
}

static uint64_t answers_put(void *arg, const char *upath, const struct dyad_answer *answer)
{
    struct member *member = arg;
    return OWN(member, answers)->table
               ? store_answers_put(OWN(member, answers)->table, upath, answer)
               : 0;
}

static void answers_told(void *arg, const char *upath, uint64_t now, bool published)
{
    struct member *member = arg;
    if (OWN(member, answers)->table)
        store_answers_heard(OWN(member, answers)->table, upath, now, published);
}

static uint64_t answers_told_at(void *arg, const char *upath, bool published)
{
    struct member *member = arg;
    return OWN(member, answers)->table
               ? store_answers_heard_at(OWN(member, answers)->table, upath, published)
               : 0;
}

static void answers_drop(void *arg, uint64_t put)
{
    struct member *member = arg;
    if (OWN(member, answers)->table)
        store_answers_drop(OWN(member, answers)->table, put);
}

static int answers_register(struct member *member)
{
    answers_open(member);
    member->table_ops.answer_get = answers_get;
    member->table_ops.answer_put = answers_put;
    member->table_ops.answer_drop = answers_drop;
    member->table_ops.answer_heard = answers_told;
    member->table_ops.answer_heard_at = answers_told_at;
    return 0;
}

const struct member_module answers_module = {
    .own = MODULE_OWN(answers),
    .sized = answers_register,
    .void_promises = answers_close,
};
