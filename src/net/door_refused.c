/*
 * door_refused.c - connections that were refused, at either end, are counted, and a line tells of them
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>

#include "net/door_impl.h"
#include "util/clock.h"
#include "util/log.h"

#define LOG_INTERVAL (10 * UTIL_NSEC_PER_SEC)

static const char *say_end(const struct sockaddr_storage *addr, char *to, size_t size)
{
    const struct sockaddr_in6 *in6 = (const void *)addr;
    const struct sockaddr_in *in = (const void *)addr;
    bool six = addr->ss_family == AF_INET6;

    if (!inet_ntop(addr->ss_family, six ? (const void *)&in6->sin6_addr : &in->sin_addr, to,
                   (socklen_t)size))
        snprintf(to, size, "?");
    return to;
}

void door_refuse(struct net_door *door, const struct sockaddr_storage *addr,
                 const char *why)
{
    char from[INET6_ADDRSTRLEN];
    uint64_t now = util_clock_now();

    door->refused++;
    if (door->logged_at && now - door->logged_at < LOG_INTERVAL)
        return;
    log_warn(
        "%llu connection(s) refused that did not prove to be of this session; the last "
        "one, from %s: %s",
        (unsigned long long)(door->refused - door->refused_logged),
        say_end(addr, from, sizeof(from)), why);
    door->refused_logged = door->refused;
    door->logged_at = now;
}
