/*
 * wrapper/map.h - shared mappings through which a file below a managed directory can be
 * written after its last close
 *
 * Such a mapping holds its description as a descriptor does: the file is settled when the
 * last page of it is unmapped, or at exec or exit. mmap, mmap64, munmap and mremap are
 * defined here; a program without such a mapping pays one load in each munmap.
 */
#ifndef DYAD_WRAPPER_MAP_H
#define DYAD_WRAPPER_MAP_H

/* exec and exit end all mappings: settle what they hold. */
void wrapper_map_settle_all(void);
/* In the child of a fork, before and after wrapper_fd_fork_child(). */
void wrapper_map_fork_child_begin(void);
void wrapper_map_fork_child_end(void);

#endif
