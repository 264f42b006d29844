/*
 * net/devices.h - the addresses on which UCX's TCP listens
 *
 * Links libc only; asks the kernel, opens nothing that stays. Any thread.
 */
#ifndef DYAD_NET_DEVICES_H
#define DYAD_NET_DEVICES_H

#include <stdbool.h>
#include <stddef.h>

#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>

struct net_device_address {
    char device[IF_NAMESIZE];
    char address[INET6_ADDRSTRLEN];
};

/* True if it is reached from this host, its link or a private network only: loopback, link-local, RFC 1918, RFC 6598 (CGNAT),
 * RFC 4193; or it is no IP address. */
bool net_devices_is_private(const struct sockaddr *addr);

/* Addresses that are not private, of devices that are up, and on which UCX listens: it takes a device's first IPv4 address, or
 * its first IPv6 address. `devices`, `transports`: as UCX_NET_DEVICES and UCX_TLS have them; NULL: all. How many there are,
 * of which found[max] gets the first; or -1 with errno. */
int net_devices_public(const char *devices, const char *transports,
                       struct net_device_address *found, int max);

/* A list, as of UCX_NET_DEVICES, for who has all peers in this network namespace: the loopback device, and those of RDMA, which
 * listen on no address. "": the loopback device is down, or they are too many. */
void net_devices_local(char *list, size_t size);

enum net_devices_there { NET_DEVICES_ALL, NET_DEVICES_SOME, NET_DEVICES_NONE };

/* Which items of such a list are devices of this host. Unless all are: the first that is none (size > 0), and what there is,
 * as far as it fits. Of what a list leaves out ("^eth0") nothing has to be there: not NONE. */
enum net_devices_there net_devices_look(const char *devices, char *missing, size_t size,
                                        char *there, size_t there_size);

#endif
