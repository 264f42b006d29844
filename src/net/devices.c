/*
 * devices.c - which addresses of this host UCX's TCP listens on, as far as the kernel shows it
 */
#include "net/devices.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <ifaddrs.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define RDMA_DIR "/sys/class/infiniband"

static bool is_private_v4(uint32_t a)
{
    return a >> 24 == 127 || a >> 24 == 10 || a >> 20 == 0xac1 || a >> 16 == 0xc0a8 ||
           a >> 16 == 0xa9fe || a >> 22 == 0x64400000 >> 22;
}

bool net_devices_is_private(const struct sockaddr *addr)
{
    if (addr->sa_family == AF_INET)
        return is_private_v4(
            ntohl(((const struct sockaddr_in *)(const void *)addr)->sin_addr.s_addr));
    if (addr->sa_family == AF_INET6) {
        const struct in6_addr *a =
            &((const struct sockaddr_in6 *)(const void *)addr)->sin6_addr;
        return IN6_IS_ADDR_LOOPBACK(a) || IN6_IS_ADDR_LINKLOCAL(a) ||
               (a->s6_addr[0] & 0xfe) == 0xfc;
    }
    return true;
}

/* An item of a list that commas separate. */
static bool has(const char *list, const char *name)
{
    size_t len = strlen(name);

    for (;; list++) {
        size_t item = strcspn(list, ",");
        if (item == len && memcmp(list, name, len) == 0)
            return true;
        list += item;
        if (!*list)
            return false;
    }
}

/* "^tcp,sm" leaves these out. */
static bool takes(const char *list, const char *name)
{
    if (!list)
        return true;
    if (list[0] == '^')
        return !has(list + 1, name);
    return has(list, "all") || has(list, name);
}

/* The address that UCX takes of its device: one with a label ("eth0:1") is none of a device's of that name. */
static bool is_first(const struct ifaddrs *all, const struct ifaddrs *one)
{
    bool before = true, six = one->ifa_addr && one->ifa_addr->sa_family == AF_INET6;

    if (!one->ifa_addr || (!six && one->ifa_addr->sa_family != AF_INET) ||
        strchr(one->ifa_name, ':'))
        return false;
    for (const struct ifaddrs *i = all; i; i = i->ifa_next) {
        if (i == one)
            before = false;
        else if (i->ifa_addr && strcmp(i->ifa_name, one->ifa_name) == 0 &&
                 ((before && i->ifa_addr->sa_family == one->ifa_addr->sa_family) ||
                  (six && i->ifa_addr->sa_family == AF_INET)))
            return false;
    }
    return true;
}

int net_devices_public(const char *devices, const char *transports,
                       struct net_device_address *found, int max)
{
    struct ifaddrs *all;
    int n = 0;

    if (!takes(transports, "tcp"))
        return 0;
    if (getifaddrs(&all) < 0)
        return -1;
    for (const struct ifaddrs *i = all; i; i = i->ifa_next) {
        if (!(i->ifa_flags & IFF_UP) || !takes(devices, i->ifa_name) || !is_first(all, i) ||
            net_devices_is_private(i->ifa_addr))
            continue;
        if (n < max) {
            const struct sockaddr_in *in = (const void *)i->ifa_addr;
            const struct sockaddr_in6 *in6 = (const void *)i->ifa_addr;
            bool six = i->ifa_addr->sa_family == AF_INET6;
            strncpy(found[n].device, i->ifa_name, sizeof(found[n].device) - 1);
            found[n].device[sizeof(found[n].device) - 1] = '\0';
            inet_ntop(i->ifa_addr->sa_family,
                      six ? (const void *)&in6->sin6_addr : &in->sin_addr, found[n].address,
                      sizeof(found[n].address));
        }
        n++;
    }
    freeifaddrs(all);
    return n;
}

/* Behind what is in the list. False: no room. */
static bool add(char *list, size_t size, const char *device, const char *port)
{
    size_t len = strlen(list);
    int n = snprintf(list + len, size - len, "%s%s%s%s", len ? "," : "", device,
                     port ? ":" : "", port ? port : "");

    return n >= 0 && (size_t)n < size - len;
}

static bool add_ports(char *list, size_t size, const char *device)
{
    char path[PATH_MAX];
    struct dirent *port;
    bool fits = true;
    DIR *dir;

    snprintf(path, sizeof(path), RDMA_DIR "/%s/ports", device);
    dir = opendir(path);
    while (dir && fits && (port = readdir(dir)))
        if (port->d_name[0] != '.')
            fits = add(list, size, device, port->d_name);
    if (dir)
        closedir(dir);
    return fits;
}

static bool add_loopback(char *list, size_t size)
{
    struct ifaddrs *all;
    bool found = false;

    if (getifaddrs(&all) < 0)
        return false;
    for (const struct ifaddrs *i = all; i && !found; i = i->ifa_next)
        found = i->ifa_addr && i->ifa_addr->sa_family == AF_INET &&
                (i->ifa_flags & IFF_LOOPBACK) && (i->ifa_flags & IFF_UP) &&
                !strchr(i->ifa_name, ':') && /* a label, which UCX does not know */
                add(list, size, i->ifa_name, NULL);
    freeifaddrs(all);
    return found;
}

static bool add_rdma(char *list, size_t size)
{
    DIR *dir = opendir(RDMA_DIR);
    struct dirent *device;
    bool fits = true;

    while (dir && fits && (device = readdir(dir)))
        if (device->d_name[0] != '.')
            fits = add_ports(list, size, device->d_name);
    if (dir)
        closedir(dir);
    return fits;
}

void net_devices_local(char *list, size_t size)
{
    list[0] = '\0';
    if (!add_loopback(list, size) || !add_rdma(list, size))
        list[0] = '\0';
}

/* eth0, mlx5_0:1, or mlx5_0, which newer UCX takes for all of its ports. */
static bool exists(const char *name)
{
    const char *port = strchr(name, ':');
    char path[PATH_MAX];

    if (strcmp(name, "all") == 0 || (!port && if_nametoindex(name) > 0))
        return true;
    if (!name[0] || name[0] == '.' || strchr(name, '/'))
        return false;
    snprintf(path, sizeof(path), RDMA_DIR "/%.*s%s%s", (int)strcspn(name, ":"), name,
             port ? "/ports/" : "", port ? port + 1 : "");
    return access(path, F_OK) == 0;
}

static void list_all(char *list, size_t size)
{
    struct if_nameindex *all = if_nameindex();
    bool fits = true;

    list[0] = '\0';
    for (const struct if_nameindex *i = all; i && i->if_index && fits; i++)
        fits = add(list, size, i->if_name, NULL);
    if (all)
        if_freenameindex(all);
    if (fits)
        add_rdma(list, size);
}

enum net_devices_there net_devices_look(const char *devices, char *missing, size_t size,
                                        char *there, size_t there_size)
{
    bool all = true, none = devices[0] != '^';
    char name[64];
    size_t len;

    for (devices += devices[0] == '^';; devices += len + 1) {
        len = strcspn(devices, ",");
        snprintf(name, sizeof(name), "%.*s", (int)len, devices);
        if (exists(name)) {
            none = false;
        } else if (all) {
            snprintf(missing, size, "%s", name);
            list_all(there, there_size);
            all = false;
        }
        if (!devices[len])
            return all ? NET_DEVICES_ALL : none ? NET_DEVICES_NONE : NET_DEVICES_SOME;
    }
}
