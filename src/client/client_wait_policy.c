/*
 * client_wait_policy.c - does an open wait for a name?
 *
 * With DYAD_WAIT=auto: unless the name is a probe, by the table (probes.def) or by the
 * user's own patterns. Of the latter, and of what an editor edits, the member is asked
 * whether something says that it will come; the others of the table belong to one program
 * each, of which it is known what it needs, and are looked for by the dozen.
 */
#include <string.h>

#include "client/client.h"
#include "config/probes.h"

static bool is_published(void *arg, const char *upath)
{
    unsigned char buf[NET_MSG_HEADER_MAX];
    struct net_msg reply;

    return client_stat(arg, upath, &reply, buf) == 0;
}

static uint8_t waits_auto(struct client *client, const char *upath)
{
    struct probes_asker asker = {
        .dmd = client->dmd[ENGINE_CONSUMER].real,
        .published = is_published,
        .arg = client,
    };

    if (client->config.probes && probes_glob(client->config.probes, upath))
        return NET_LOOKUP_WAIT | (probes_named(&asker, upath) ? 0 : NET_CONSUME_PROBE);
    switch (probes_answer(&asker, upath)) {
    case PROBES_OPTIONAL:
        return 0;
    case PROBES_ASK:
        return NET_LOOKUP_WAIT | NET_CONSUME_PROBE;
    default:
        return NET_LOOKUP_WAIT;
    }
}

uint8_t client_waits_for(struct client *client, const char *upath)
{
    const char *wait = client->config.wait;

    if (strcmp(wait, "auto") == 0)
        return waits_auto(client, upath);
    if (strcmp(wait, "all") == 0)
        return NET_LOOKUP_WAIT;
    if (strcmp(wait, "none") == 0)
        return 0;
    return probes_glob(wait, upath) ? NET_LOOKUP_WAIT : 0;
}
