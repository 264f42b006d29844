/*
 * renames.c - places in the table of the marks for renames that are under way
 *
 * A process takes a place by a compare-and-swap of `owner` from 0, or from a dead
 * process; from then on only the owner writes to the place. `state` is WHOLE when all
 * other fields are set. A member looks for the places of dead owners of its session, and
 * takes them by the same swap.
 *
 * What could go wrong: a process is killed while it fills, holds or empties a place, or
 * after it has taken the place of a dead one (struct marks_rename says what is left
 * then); an owner is of another pid namespace, and cannot be looked at (take()); the
 * places are all taken (take_back()).
 */
#include "store/renames.h"

#include "store/marks_slot.h"

_Static_assert(sizeof(((struct marks_rename *)0)->names) >= STORE_RENAME_MAX, "room");

/* So long, at least, what the dead have left is kept for their session. */
#define KEPT_SECONDS 3600

uint64_t store_renames_session(const char *name)
{
    return XXH3_64bits(name, strlen(name));
}

static uint32_t of_owner(uint64_t owner)
{
    return (uint32_t)XXH3_64bits(&owner, sizeof(owner));
}

/* Whether an owner lives is asked in its pid namespace, or, if that is another one than
 * ours, judged by how long ago the owner came. Neither is in the word that is swapped. So
 * `since` is written before the swap, by each process that tries: for the winner it is
 * right, and it does not make a living owner seem older. `ns` is written after the swap,
 * by the winner, and then in `of` whose it is: as long as `of` is not the owner, `ns` is
 * that of the owner before, and this owner counts as one of another namespace, which
 * cannot be looked into. If it is killed between the two it is found dead after
 * STORE_PROC_FOREIGN_MAX.
 *
 * A dead process's number does not come again (store/alive.h), so a swap from it cannot
 * hit a later use of the place. */
static bool take(struct marks_rename *place, uint64_t from)
{
    uint32_t ns;
    store_proc_t self = store_proc_self(&ns);

    marks_came(&place->since);
    if (!atomic_compare_exchange_strong(&place->owner, &from, self))
        return false;
    atomic_store(&place->ns, ns);
    atomic_store(&place->of, of_owner(self));
    return true;
}

static uint32_t ns_of(struct marks_rename *place, uint64_t owner)
{
    return atomic_load(&place->of) == of_owner(owner) ? atomic_load(&place->ns)
                                                      : MARKS_NS_FOREIGN;
}

/* A process that executes another image in the midst of a rename (in another thread)
 * lives on, and what it has left is found when it ends. */
static bool is_dead(struct marks_rename *place, uint64_t owner)
{
    return owner == MARKS_NOBODY ||
           !store_proc_alive(owner, ns_of(place, owner), marks_age(&place->since));
}

/* All places are taken, perhaps by sessions that are over, whose members look no more:
 * places of dead processes are used again, an hour later at the earliest. */
static uint32_t take_back(struct marks_table *table)
{
    for (uint32_t i = 0; i < MARKS_RENAMES; i++) {
        struct marks_rename *place = &table->renames[i];
        uint64_t owner = atomic_load(&place->owner);
        if (marks_age(&place->since) < KEPT_SECONDS || !is_dead(place, owner) ||
            !take(place, owner))
            continue;
        atomic_store(&place->state, MARKS_RENAME_EMPTY);
        return i;
    }
    return MARKS_RENAMES;
}

store_rename_t store_renames_begin(struct store_marks *marks, uint64_t session,
                                   const struct store_rename *rename)
{
    size_t from = strlen(rename->from) + 1, to = strlen(rename->to) + 1;
    struct marks_table *table = marks->table;

    if (from + to > STORE_RENAME_MAX)
        return 0;
    uint32_t i;
    for (i = 0; i < MARKS_RENAMES; i++)
        if (atomic_load_explicit(&table->renames[i].owner, memory_order_relaxed) == 0 &&
            take(&table->renames[i], 0))
            break;
    if (i == MARKS_RENAMES)
        i = take_back(table);
    if (i == MARKS_RENAMES)
        return 0;
    struct marks_rename *place = &table->renames[i];
    atomic_store(&place->session, session);
    place->ino = rename->ino;
    memcpy(place->names, rename->from, from);
    memcpy(place->names + from, rename->to, to);
    atomic_store(&place->state, MARKS_RENAME_WHOLE);
    return i + 1;
}

static struct marks_rename *find(struct store_marks *marks, store_rename_t place)
{
    return place && place <= MARKS_RENAMES ? &marks->table->renames[place - 1] : NULL;
}

void store_renames_end(struct store_marks *marks, store_rename_t place)
{
    struct marks_rename *p = find(marks, place);

    if (!p)
        return;
    atomic_store(&p->state, MARKS_RENAME_EMPTY);
    atomic_store(&p->owner, 0);
}

void store_renames_give_back(struct store_marks *marks, store_rename_t place)
{
    struct marks_rename *p = find(marks, place);

    if (p)
        atomic_store(&p->owner, MARKS_NOBODY);
}

/* The names are a dead process's, and this directory's other users are trusted with the
 * files themselves; but not to end every string. */
static bool names_of(struct marks_rename *place, struct store_rename *rename)
{
    const char *end = place->names + sizeof(place->names);
    const char *nul = memchr(place->names, 0, sizeof(place->names));

    if (!nul || !memchr(nul + 1, 0, (size_t)(end - nul - 1)))
        return false;
    *rename = (struct store_rename){.ino = place->ino, .from = place->names, .to = nul + 1};
    return true;
}

static bool look_at(struct marks_rename *place, uint64_t session, bool own)
{
    uint64_t owner = atomic_load(&place->owner);
    uint32_t state = atomic_load(&place->state), ns;

    if (!owner)
        return false;
    if (state == MARKS_RENAME_EMPTY) {
        if (is_dead(place, owner)) /* it may have been used again: then it is another's */
            atomic_compare_exchange_strong(&place->owner, &owner, 0);
        return false;
    }
    if (atomic_load(&place->session) != session)
        return false;
    if (own && state == MARKS_RENAME_TAKEN && owner == store_proc_self(&ns) &&
        ns_of(place, owner) == ns)
        return true;
    return is_dead(place, owner) && take(place, owner);
}

void store_renames_left(struct store_marks *marks, uint64_t session, bool own,
                        bool (*fn)(const struct store_rename *rename, store_rename_t place,
                                   void *arg),
                        void *arg)
{
    struct marks_table *table = marks->table;
    struct store_rename rename;

    for (uint32_t i = 0; i < MARKS_RENAMES; i++) {
        if (!look_at(&table->renames[i], session, own))
            continue;
        atomic_store(&table->renames[i].state, MARKS_RENAME_TAKEN);
        if (!names_of(&table->renames[i], &rename))
            store_renames_end(marks, i + 1);
        else if (!fn(&rename, i + 1, arg))
            store_renames_give_back(marks, i + 1);
    }
}
