/*
 * pmix_job.c - job size and node map, from the keys that the launcher gave at the start
 *
 * A rank's node is told by its host name, or its node id where a launcher gives no names;
 * nodes are numbered in the order of their first rank, so all ranks number them alike.
 * Numbers come in different types (and the wrong ones), hence value_number().
 */
#include "boot/pmix_job.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <pmix.h>
#include <uthash.h>

#include "util/log.h"

/* Launchers give numbers in different types (and the wrong ones). */
static bool value_number(const pmix_value_t *value, uint32_t *number)
{
    int64_t n;

    switch (value->type) {
    case PMIX_UINT32:
        n = value->data.uint32;
        break;
    case PMIX_PROC_RANK:
        n = value->data.rank;
        break;
    case PMIX_INT:
        n = value->data.integer;
        break;
    case PMIX_INT32:
        n = value->data.int32;
        break;
    case PMIX_INT64:
        n = value->data.int64;
        break;
    case PMIX_UINT:
        n = value->data.uint;
        break;
    case PMIX_UINT16:
        n = value->data.uint16;
        break;
    case PMIX_INT16:
        n = value->data.int16;
        break;
    case PMIX_UINT64:
        n = value->data.uint64 > INT64_MAX ? -1 : (int64_t)value->data.uint64;
        break;
    case PMIX_SIZE:
        n = value->data.size > INT64_MAX ? -1 : (int64_t)value->data.size;
        break;
    default:
        return false;
    }
    if (n < 0 || n > UINT32_MAX)
        return false;
    *number = (uint32_t)n;
    return true;
}

/* A key that the launcher gave at the start. PMIX_OPTIONAL: answered from local memory,
 * never blocks. */
static pmix_value_t *local_get(const char *nspace, pmix_rank_t rank, const char *key)
{
    pmix_value_t *value = NULL;
    pmix_info_t optional;
    pmix_proc_t proc;

    PMIX_LOAD_PROCID(&proc, nspace, rank);
    PMIX_INFO_LOAD(&optional, PMIX_OPTIONAL, NULL, PMIX_BOOL);
    if (PMIx_Get(&proc, key, &optional, 1, &value) != PMIX_SUCCESS)
        value = NULL;
    PMIX_INFO_DESTRUCT(&optional);
    return value;
}

static bool get_number(const char *nspace, pmix_rank_t rank, const char *key,
                       uint32_t *number)
{
    pmix_value_t *value = local_get(nspace, rank, key);
    bool found = value && value_number(value, number);

    if (value)
        PMIX_VALUE_RELEASE(value);
    return found;
}

struct node_name { /* a node by its id or its host name, whichever all ranks have */
    UT_hash_handle hh;
    uint32_t number;
    char name[];
};

/* The number of the node called `name`; new names get the next number. -1: no memory. */
static int64_t node_number(struct node_name **nodes, const char *name)
{
    struct node_name *node;

    HASH_FIND_STR(*nodes, name, node);
    if (!node) {
        if (!(node = malloc(sizeof(*node) + strlen(name) + 1)))
            return -1;
        strcpy(node->name, name);
        node->number = HASH_COUNT(*nodes);
        HASH_ADD_STR(*nodes, name, node);
        if (!node->hh.tbl) {
            free(node);
            return -1;
        }
    }
    return node->number;
}

/* Fill the node map from `key` of each rank. 0, or an errno value: ENOENT a rank has no
 * such key. */
static int map_nodes(const char *nspace, struct boot_pmix_job *job, const char *key,
                     bool (*stop)(void *arg), void *arg)
{
    struct node_name *nodes = NULL, *node, *next;
    int error = 0;

    for (uint32_t r = 0; r < job->nranks && !error; r++) {
        pmix_value_t *value;
        char text[16];
        const char *name = NULL;
        uint32_t id;
        int64_t number;

        if (r % 256 == 0 && stop(arg)) {
            error = ECANCELED;
            break;
        }
        value = local_get(nspace, r, key);
        if (value && value->type == PMIX_STRING)
            name = value->data.string;
        else if (value && value_number(value, &id)) {
            snprintf(text, sizeof(text), "%u", id);
            name = text;
        }
        if (!name)
            error = ENOENT;
        else if ((number = node_number(&nodes, name)) < 0)
            error = ENOMEM;
        else
            job->node[r] = (uint32_t)number;
        if (value)
            PMIX_VALUE_RELEASE(value);
    }
    job->nnodes = HASH_COUNT(nodes);
    HASH_ITER(hh, nodes, node, next)
    {
        HASH_DEL(nodes, node);
        free(node);
    }
    return error;
}

int boot_pmix_job_read(const char *nspace, struct boot_pmix_job *out,
                       bool (*stop)(void *arg), void *arg)
{
    struct boot_pmix_job job = {0};
    int error;

    if (!get_number(nspace, PMIX_RANK_WILDCARD, PMIX_JOB_SIZE, &job.nranks) ||
        job.nranks == 0)
        return ENODATA;
    if (!(job.node = calloc(job.nranks, sizeof(*job.node))))
        return ENOMEM;
    error = map_nodes(nspace, &job, PMIX_HOSTNAME, stop, arg);
    if (error == ENOENT)
        error = map_nodes(nspace, &job, PMIX_NODEID, stop, arg);
    if (error == ENOENT) {
        /* Placement is then blind; files are found all the same. */
        log_warn(
            "the launcher does not say on which nodes the ranks are; replicas may share a "
            "node");
        for (uint32_t r = 0; r < job.nranks; r++)
            job.node[r] = r;
        job.nnodes = job.nranks;
        error = 0;
    }
    if (error)
        free(job.node);
    else
        *out = job;
    return error;
}
