/*
 * test_transfer_chunks.c - of whom the chunks of a file are asked
 *
 * transfer_chunks.c alone: ranks, links and the disk are played by the test.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <utlist.h>

#include "engine/core/local_file.h"
#include "engine/core/module.h"
#include "engine/fetch/relay.h"
#include "engine/fetch/transfer_impl.h"
#include "engine/membership/unreachable.h"
#include "util/digest.h"

#define RANKS 8
#define CHUNK 4096u
#define SIZE  (3 * CHUNK)
enum { OWNER = 1, RELAY = 2, SELF = 3 };

static struct member member_made;
static struct member *const member = &member_made;
static struct engine_config config;
static struct transfers transfers;
static struct transfer transfer;
static bool known[RANKS], dead[RANKS], suspect[RANKS];
static struct sent {
    uint32_t rank;
    struct net_msg get;
} sent[64];
static unsigned nsent;
static int write_error;
static bool committed;
static int failed;

int member_send(struct member *m, uint32_t rank, struct net_msg *msg)
{
    (void)m;
    assert_int_equal(msg->type, NET_MSG_GET);
    assert_true(nsent < 64);
    sent[nsent++] = (struct sent){.rank = rank, .get = *msg};
    return 0;
}

const char *member_describe(struct member *m, uint32_t rank)
{
    static char text[16];

    (void)m;
    snprintf(text, sizeof(text), "rank %u", rank);
    return text;
}

const struct net_peer *net_worker_peer(struct net_worker *worker, uint32_t rank)
{
    static const struct net_peer peer;

    (void)worker;
    return known[rank] ? &peer : NULL;
}

int net_peer_decode(struct net_peer *peer, const void *data, size_t len)
{
    (void)peer;
    (void)data;
    (void)len;
    return -1;
}

int net_worker_set_peer(struct net_worker *worker, const struct net_peer *info)
{
    (void)worker;
    (void)info;
    return -1;
}

void net_worker_recycle(struct net_worker *worker, void *payload, size_t len)
{
    (void)worker;
    (void)len;
    free(payload);
}

void net_timer_start(struct net_timer *timer, uint64_t when)
{
    (void)timer;
    (void)when;
}

bool dht_node_is_live(const struct dht_node *node, uint32_t rank)
{
    (void)node;
    return !dead[rank];
}

uint32_t dht_node_neighbour(const struct dht_node *node, uint32_t rank, uint32_t after)
{
    (void)node;
    (void)rank;
    (void)after;
    return DYAD_RANK_NONE;
}

bool unreachable_is_silent(const struct member *m, uint32_t rank)
{
    (void)m;
    return suspect[rank];
}

void unreachable_suspect(struct member *m, uint32_t rank)
{
    (void)m;
    suspect[rank] = true;
}

void unreachable_unserved(struct member *m, uint32_t rank, uint64_t size)
{
    (void)m;
    (void)rank;
    (void)size;
}

void unreachable_served(struct member *m, uint32_t rank, uint64_t size)
{
    (void)m;
    (void)rank;
    (void)size;
}

void modules_fetch_grew(struct member *m, const char *upath)
{
    (void)m;
    (void)upath;
}

void local_file_job(struct member *m, struct member_dmd *d, uint64_t size,
                    struct engine_io *io, void (*work)(void *arg), void (*done)(void *arg),
                    void *arg)
{
    (void)m;
    (void)d;
    (void)size;
    (void)io;
    work(arg);
    done(arg);
}

int store_fetch_write(struct store_fetch *fetch, uint64_t offset, const void *data,
                      size_t len)
{
    (void)fetch;
    (void)data;
    assert_true(offset + len <= SIZE);
    errno = write_error;
    return write_error ? -1 : 0;
}

int store_fetch_open(const struct store_fetch *fetch)
{
    (void)fetch;
    return -1;
}

int store_fetch_identity(const struct store_fetch *fetch, struct store_identity *id)
{
    (void)fetch;
    (void)id;
    return -1;
}

int store_identity_read(int fd, struct store_identity *id)
{
    (void)fd;
    (void)id;
    return -1;
}

static uint64_t noted[SIZE / CHUNK];

void relay_note(struct member *m, const struct dyad_entry *entry, uint64_t offset,
                uint64_t length, uint64_t digest)
{
    (void)m;
    assert_ptr_equal(entry, &transfer.entry);
    assert_int_equal(length, CHUNK);
    noted[offset / CHUNK] = digest;
}

bool transfer_is_background(const struct transfer *t)
{
    (void)t;
    return false;
}

void transfer_chunk_answered(struct chunk *chunk)
{
    if (chunk->asked)
        HASH_DELETE(hh, transfers.gets, chunk);
    chunk->asked = false;
}

void transfer_chunk_free(struct transfer *t, struct chunk *chunk)
{
    transfer_chunk_answered(chunk);
    DL_DELETE(t->chunks, chunk);
    t->nchunks--;
    free(chunk);
}

void transfer_commit(struct transfer *t)
{
    assert_ptr_equal(t, &transfer);
    committed = true;
}

void transfer_fail(struct transfer *t, int status)
{
    t->failing = true;
    failed = status;
}

void transfer_failed_here(struct transfer *t, const char *what, int error)
{
    (void)what;
    transfer_fail(t, error);
}

/* A fetch from the owner has asked it for its first two chunks. */
static int setup(void **state)
{
    (void)state;
    config = (struct engine_config){.chunk_size = CHUNK, .chunks = 2, .peer_timeout = 1};
    transfers = (struct transfers){0};
    transfer = (struct transfer){.member = member,
                                 .upath = (char *)"f",
                                 .entry = {.upath = "f", .size = SIZE, .owner = OWNER},
                                 .rank = OWNER,
                                 .source = OWNER,
                                 .other = DYAD_RANK_NONE};
    member_made = (struct member){.config = &config, .self.rank = SELF, .next_id = 1};
    member->own[MODULE_transfers] = &transfers;
    for (int i = 0; i < RANKS; i++) {
        known[i] = true;
        dead[i] = suspect[i] = false;
    }
    memset(noted, 0, sizeof(noted));
    write_error = 0;
    nsent = 0;
    committed = false;
    failed = 0;
    transfer_ask_chunks(&transfer);
    return nsent == 2 && sent[0].rank == OWNER ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    while (transfer.chunks)
        transfer_chunk_free(&transfer, transfer.chunks);
    return 0;
}

static bool answer(const struct sent *to, enum net_msg_type type, struct net_msg msg)
{
    void *data = type == NET_MSG_DATA ? calloc(1, to->get.length) : NULL;

    msg.type = type;
    msg.id = to->get.id;
    msg.source = to->rank;
    msg.offset = to->get.offset;
    return transfer_receive(member, &msg, data, data ? to->get.length : 0);
}

static void redirect(const struct sent *to, uint32_t relay)
{
    assert_true(answer(to, NET_MSG_REDIRECT, (struct net_msg){.rank = relay}));
}

/* All GETs from `first` on were sent to the rank with these flags, and are answered. */
static void rest_comes_from(unsigned first, uint32_t rank, uint8_t flags)
{
    assert_int_equal(nsent, first + 2);
    for (unsigned i = first; i < nsent; i++) {
        assert_int_equal(sent[i].rank, rank);
        assert_int_equal(sent[i].get.flags, flags);
        assert_true(answer(&sent[i], NET_MSG_DATA, (struct net_msg){0}));
    }
    assert_true(committed);
    assert_int_equal(failed, 0);
}

/* The owner answers each of the GETs that were on their way, and the first answer counts. */
static void test_redirected(void **state)
{
    (void)state;
    redirect(&sent[0], RELAY);
    assert_false(answer(&sent[1], NET_MSG_REDIRECT, (struct net_msg){.rank = RELAY}));
    rest_comes_from(2, RELAY, NET_GET_OWNER | NET_GET_RELAY);
}

/* The relay has just joined, or the job is so large that ranks do not know each other. */
static void test_redirected_to_unknown(void **state)
{
    (void)state;
    known[RELAY] = false;
    redirect(&sent[0], RELAY);
    rest_comes_from(2, RELAY, NET_GET_OWNER | NET_GET_RELAY);
}

static void test_redirected_to_lost(void **state)
{
    bool *const states[] = {dead, suspect};

    for (int i = 0; i < 2; i++) {
        states[i][RELAY] = true;
        redirect(&sent[0], RELAY);
        rest_comes_from(2, OWNER, NET_GET_OWNER);
        teardown(state);
        assert_int_equal(setup(state), 0);
    }
}

static void test_relay_is_lost(void **state)
{
    (void)state;
    known[RELAY] = false;
    redirect(&sent[0], RELAY);
    HASH_ADD_KEYPTR(hh, transfers.by_upath, transfer.upath, 1, &transfer);
    transfer_peer_down(member, RELAY); /* its address could not be had */
    rest_comes_from(4, OWNER, NET_GET_OWNER);
    HASH_DELETE(hh, transfers.by_upath, &transfer);
}

/* Its memory or disk has changed what the owner sent: that is asked of the owner. What nobody has made a digest of counts. */
static void test_relay_has_others(void **state)
{
    static const char zeros[CHUNK];
    uint64_t right = util_digest(zeros, CHUNK);

    (void)state;
    redirect(&sent[0], RELAY);
    assert_true(answer(&sent[2], NET_MSG_DATA, (struct net_msg){.digest = right}));
    assert_int_equal(nsent, 5);
    assert_true(answer(&sent[3], NET_MSG_DATA, (struct net_msg){.digest = right ^ 1}));
    assert_int_equal(noted[0], right);
    assert_int_equal(noted[1], 0);
    /* That one, and the one that was asked for meanwhile, of the owner. */
    assert_int_equal(nsent, 7);
    for (unsigned i = 5; i < 7; i++) {
        assert_int_equal(sent[i].rank, OWNER);
        assert_int_equal(sent[i].get.flags, NET_GET_OWNER);
        assert_int_equal(sent[i].get.offset, (i - 4) * CHUNK);
    }
    assert_false(committed);
    assert_true(answer(&sent[5], NET_MSG_DATA, (struct net_msg){.digest = right}));
    assert_true(answer(&sent[6], NET_MSG_DATA, (struct net_msg){.digest = right ^ 1}));
    assert_true(committed); /* the owner's own have a MAC */
    assert_int_equal(failed, 0);
    assert_int_equal(noted[1], right);
}

/* A disk whose check is wrong says EBADMSG, too: that is an error, and nothing is asked for again. */
static void test_write_fails(void **state)
{
    (void)state;
    write_error = EBADMSG;
    assert_true(answer(&sent[0], NET_MSG_DATA, (struct net_msg){.digest = 1}));
    assert_int_equal(failed, EBADMSG);
    assert_int_equal(nsent, 2);
    assert_int_equal(noted[0], 0);
}

static void test_relay_is_silent(void **state)
{
    (void)state;
    redirect(&sent[0], RELAY);
    transfer_silent(&transfer);
    assert_true(suspect[RELAY]);
    rest_comes_from(4, OWNER, NET_GET_OWNER);
}

static void test_relay_has_it_not(void **state)
{
    (void)state;
    redirect(&sent[0], RELAY);
    assert_true(answer(&sent[2], NET_MSG_ERROR, (struct net_msg){.status = ESTALE}));
    rest_comes_from(4, OWNER, NET_GET_OWNER);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_redirected, setup, teardown),
        cmocka_unit_test_setup_teardown(test_redirected_to_unknown, setup, teardown),
        cmocka_unit_test_setup_teardown(test_redirected_to_lost, setup, teardown),
        cmocka_unit_test_setup_teardown(test_relay_is_lost, setup, teardown),
        cmocka_unit_test_setup_teardown(test_relay_has_others, setup, teardown),
        cmocka_unit_test_setup_teardown(test_write_fails, setup, teardown),
        cmocka_unit_test_setup_teardown(test_relay_is_silent, setup, teardown),
        cmocka_unit_test_setup_teardown(test_relay_has_it_not, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
