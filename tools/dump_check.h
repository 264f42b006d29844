/*
 * dump_check.h - whether the table agrees with itself, and with the owners' disks
 *
 * Compares what all ranks say: each home that a name has (as the ranks that keep it, and
 * its owner, compute them) must hold the newest version, and the owner must have recorded
 * that version and find the published file on its disk. Nothing is stopped for it. So a
 * name that looks wrong is asked for again, until it is right or was found wrong in the
 * same way, with the same versions everywhere and no publish under way, several times in
 * a row: the .c says why that suffices.
 */
#ifndef DYAD_TOOLS_DUMP_CHECK_H
#define DYAD_TOOLS_DUMP_CHECK_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <jansson.h>

/* Ask all ranks: NET_DUMP_* flags; upath for NET_DUMP_KEY, else NULL. A document as
 * dump_client_ask() makes it (a new reference), or NULL: nothing answered. */
typedef json_t *(*dump_check_ask_fn)(void *arg, uint8_t flags, const char *upath);

/* A JSON object (docs/dht-dump.md):
 *   {"checked": N, "mismatches": [{"upath": NAME, "ranks": [...], "what": TEXT}, ...],
 *    "unsettled": N, "unconfirmed": N, "unreachable": [...], "ended": [...]}
 * or NULL with errno: ENODATA a question was not answered by anybody (the callee has said
 * why), ENOMEM. */
json_t *dump_check(dump_check_ask_fn ask, void *arg);

/* One line for each mismatch, one for the sum. 0, or -1 with errno ENOMEM. */
int dump_check_print(FILE *out, const json_t *result);

#endif
