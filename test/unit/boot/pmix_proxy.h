/*
 * pmix_proxy.h - what stands between a process and its PMIx server
 */
#ifndef TEST_PMIX_PROXY_H
#define TEST_PMIX_PROXY_H

/* What connections meet. Others reach the launcher's server. */
enum pmix_proxy {
    PROXY_REFUSES,      /* all connections are refused: the server has ended */
    PROXY_CLOSES,       /* all are closed at once: something else has its port */
    PROXY_CLOSES_FIRST, /* the first is */
    PROXY_DEAF,         /* the first is greeted, and what it asks is never answered */
};

/* Put it into this process's environment; before there are threads. 0 or -1. */
int pmix_proxy_start(enum pmix_proxy what);

#endif
