/*
 * answers.c - the answers that the members of a node share: between the table and the disk
 *
 * dht/node_kept.c says when an answer is true, store/answers.c how it is shared. Here is
 * said between whom: members of one session that have the same managed directory. What
 * makes a session is what makes a rank's number mean the same rank: the job, this launch of
 * it (a job's name comes again), and the name under which its members find each other.
 */
#include <stdio.h>
#include <string.h>

#include "engine/member.h"
#include "store/answers.h"
#include "util/log.h"

void answers_open(struct member *member)
{
    const struct store_dir *dir = member->side[ENGINE_CONSUMER].dir;
    const char *found_by = member->config->kvs_namespace;
    char session[1024];
    int n;

    if (!dir)
        dir = member->side[ENGINE_PRODUCER].dir;
    if (!dir)
        return;
    n = snprintf(session, sizeof(session), "%s/%016llx/%u/%s", member->session,
                 (unsigned long long)member->launch, member->job->nranks,
                 found_by ? found_by : "");
    if (n < 0 || (size_t)n >= sizeof(session))
        return;
    member->answers = store_answers_create(dir, session, (size_t)n);
    if (!member->answers)
        log_info(
            "answers of look-ups are not shared between the ranks of this node: the "
            "table in %s/" STORE_CONTROL_DIR " cannot be used: %m",
            store_dir_path(dir));
}

void answers_close(struct member *member)
{
    store_answers_destroy(member->answers);
    member->answers = NULL;
}

bool answers_get(void *arg, const char *upath, uint64_t now, struct dyad_answer *answer)
{
    struct member *member = arg;
    return member->answers && store_answers_get(member->answers, upath, now, answer);
}

uint64_t answers_put(void *arg, const char *upath, const struct dyad_answer *answer)
{
    struct member *member = arg;
    return member->answers ? store_answers_put(member->answers, upath, answer) : 0;
}

void answers_told(void *arg, const char *upath, uint64_t now, bool published)
{
    struct member *member = arg;
    if (member->answers)
        store_answers_told(member->answers, upath, now, published);
}

uint64_t answers_told_at(void *arg, const char *upath, bool published)
{
    struct member *member = arg;
    return member->answers ? store_answers_told_at(member->answers, upath, published) : 0;
}

void answers_drop(void *arg, uint64_t put)
{
    struct member *member = arg;
    if (member->answers)
        store_answers_drop(member->answers, put);
}
