/*
 * test_serve.c - how many GETs of one rank wait here
 *
 * serve.c alone: what becomes of a file is played by the test.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/core/local_file.h"
#include "engine/core/module.h"
#include "engine/fetch/prefetch.h"
#include "engine/fetch/relay.h"
#include "engine/fetch/serve_absent_owner.h"
#include "engine/fetch/serve_refused.h"
#include "engine/fetch/transfer.h"
#include "engine/promoted/promoted.h"
#include "engine/publish/pieces_take.h"
#include "engine/publish/produce.h"
#include "fake_clock.h"

#define BOUND  131072u /* GETS_MAX */
#define BROKEN 5u

extern const struct member_module serve_module;
static const struct member_module *const modules[] = {&serve_module, NULL};

static struct member member_made;
static struct member *const member = &member_made;
static struct engine_config config = {.peer_timeout = 30};
static bool pending;             /* a publish of the file is under way */
static unsigned refused, staled; /* ENOMEM; ESTALE */
static uint32_t last;            /* whom it was told */

int member_send(struct member *m, uint32_t rank, struct net_msg *msg)
{
    (void)m;
    assert_int_equal(msg->type, NET_MSG_ERROR);
    last = rank;
    refused += msg->status == ENOMEM;
    staled += msg->status == ESTALE;
    return 0;
}

bool produce_pending(struct member *m, const char *upath)
{
    (void)m;
    (void)upath;
    return pending;
}

bool pieces_are_taken(struct member *m, const char *upath)
{
    (void)m;
    (void)upath;
    return false;
}

/* What these GETs do not come to. */
#define NEVER(ret, name, ...) \
    ret name(__VA_ARGS__)     \
    {                         \
        abort();              \
    }
#define UNUSED __attribute__((unused))
NEVER(int, net_worker_send, struct net_worker *w UNUSED, uint32_t r UNUSED,
      struct net_msg *m UNUSED, const void *p UNUSED, size_t l UNUSED, net_send_fn f UNUSED,
      void *a UNUSED)
NEVER(int, transfer_part, struct member *m UNUSED, const struct dyad_entry *e UNUSED,
      uint64_t end UNUSED, int *fd UNUSED)
NEVER(bool, transfer_is_partial, struct member *m UNUSED, const struct dyad_entry *e UNUSED,
      int fd UNUSED)
NEVER(bool, transfer_receive, struct member *m UNUSED, const struct net_msg *g UNUSED,
      void *p UNUSED, size_t l UNUSED)
NEVER(bool, relay_redirect, struct member *m UNUSED, uint32_t r UNUSED, uint64_t i UNUSED,
      const struct dyad_entry *e UNUSED)
NEVER(bool, relay_is_large, const struct member *m UNUSED,
      const struct dyad_entry *e UNUSED)
NEVER(uint64_t, relay_digest, struct member *m UNUSED, const struct dyad_entry *e UNUSED,
      uint64_t o UNUSED, uint64_t l UNUSED)
NEVER(bool, promoted_redirect, struct member *m UNUSED, uint32_t r UNUSED,
      uint64_t i UNUSED, const struct store_record *e UNUSED)
NEVER(void, prefetch_is_read, struct member *m UNUSED, const char *u UNUSED)
NEVER(void, serve_refused_publish, struct member *m UNUSED, enum engine_role r UNUSED,
      const char *u UNUSED, const struct dyad_version *v UNUSED, const char *w UNUSED)
NEVER(int, serve_absent_owner_find, struct member *m UNUSED,
      const struct dyad_entry *e UNUSED, struct member_dmd **d UNUSED,
      struct store_record *r UNUSED)
NEVER(bool, local_file_still_there, struct member_dmd *d UNUSED,
      const struct store_record *r UNUSED)
NEVER(bool, local_file_is_same, struct member_dmd *d UNUSED,
      const struct store_record *r UNUSED)
NEVER(void, local_file_job, struct member *m UNUSED, struct member_dmd *d UNUSED,
      uint64_t s UNUSED, struct engine_io *i UNUSED, void (*w)(void *) UNUSED,
      void (*f)(void *) UNUSED, void *a UNUSED)
NEVER(void, net_loop_post, struct net_loop *l UNUSED, struct net_post *p UNUSED,
      net_loop_fn f UNUSED, void *a UNUSED)

static void get(uint32_t rank)
{
    struct net_msg msg = {.type = NET_MSG_GET,
                          .source = rank,
                          .entry = {.upath = "f", .version.counter = 1, .owner = 0},
                          .length = 10};
    void *payload = NULL;

    assert_true(serve_module.messages->fn(member, &msg, &payload, 0));
}

/* A rank that asks without end is refused; what others ask for is answered, and so is what it asked
 * for before. */
static void test_bound(void **state)
{
    (void)state;
    fake_clock_begin(1000);
    member->config = &config;
    member->modules = modules;
    assert_int_equal(modules_create(member, modules), 0);

    pending = true;
    for (unsigned i = 0; i < BOUND; i++)
        get(BROKEN);
    assert_int_equal(refused, 0);
    for (unsigned i = 0; i < 10; i++)
        get(BROKEN);
    assert_int_equal(refused, 10);
    assert_int_equal(last, BROKEN);
    for (uint32_t rank = 6; rank < 1000; rank++)
        get(rank);
    assert_int_equal(refused, 10);

    pending = false;
    serve_module.published(member, "f");
    assert_int_equal(staled, BOUND + 994);
    pending = true;
    get(BROKEN); /* it may ask again */
    assert_int_equal(refused, 10);

    modules_destroy(member);
    modules_free(member);
    fake_clock_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_bound)};
    return cmocka_run_group_tests_name("serve", tests, NULL, NULL);
}
