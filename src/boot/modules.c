/*
 * modules.c - destructors that must not run, and libraries in a name space of their own
 *
 * The destructors of UCX (of all objects, where the engine is apart from the program:
 * client/client_library.c) are taken out of the objects' dynamic sections, where the
 * loader reads them, as soon as an object is loaded, for a forked child and for this
 * process. Nothing is lost: at the end of a process they would free memory. PMIx and UCX
 * find the dlopen and dlclose below as they find getenv (environ.c). Forks wait while our
 * libraries load others or give them back (client/client_loading.c).
 *
 * What could go wrong: a child is forked whose exit runs destructors (visit() says what
 * happens then); glibc's dlopen with RTLD_GLOBAL ends the process where there is no
 * global scope (dlopen()).
 */
#include "boot/modules.h"
#include "util/loader.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>

#define DYAD_VISIBLE __attribute__((visibility("default")))

static pthread_once_t once = PTHREAD_ONCE_INIT;
static void *(*libc_dlopen)(const char *path, int mode);
static int (*libc_dlclose)(void *handle);
static bool apart;
/* NULL while libdyad_member.so itself is loaded, by somebody who has begun it already. */
static const struct boot_loading *loading;

static unsigned loading_begin(void)
{
    return loading ? loading->begin() : 0;
}

static void loading_end(unsigned begun)
{
    if (loading)
        loading->end(begun);
}

static void nothing(void)
{
}

static void forget(ElfW(Dyn) * dyn, uintptr_t base)
{
    for (; dyn->d_tag != DT_NULL; dyn++) {
        if (dyn->d_tag == DT_FINI_ARRAYSZ)
            dyn->d_un.d_val = 0;
        else if (dyn->d_tag == DT_FINI)
            dyn->d_un.d_ptr = (uintptr_t)&nothing - base;
    }
}

static bool forgotten(const ElfW(Dyn) * dyn, uintptr_t base)
{
    for (; dyn->d_tag != DT_NULL; dyn++)
        if ((dyn->d_tag == DT_FINI_ARRAYSZ && dyn->d_un.d_val != 0) ||
            (dyn->d_tag == DT_FINI && dyn->d_un.d_ptr != (uintptr_t)&nothing - base))
            return false;
    return true;
}

/* libucs, libuct_ib, ... */
static bool is_ucx(const char *name)
{
    const char *slash = name ? strrchr(name, '/') : NULL;

    name = slash ? slash + 1 : name ? name : "";
    return strncmp(name, "libuc", 5) == 0 && name[5] && strchr("mpst", name[5]) &&
           (name[6] == '.' || name[6] == '_');
}

/* A program may fork while our threads are in the midst of UCX, whose state is then half
 * changed in the child, and whose locks are held there by nobody. The child never calls
 * UCX, but its exit would: libucs's destructors walk through that state, and end the
 * child by abort() or SIGSEGV (a shell's subshell, one in some hundreds while UCX starts
 * and connects), after it has done all its work. So UCX's destructors are taken out; a
 * UCX that was there before us is the program's, and left alone.
 *
 * Where the engine is apart, those of all objects are taken out: fork() prepares the
 * program's libc for the child, and not ours, whose locks threads of ours may hold at
 * that moment, and the loader runs the destructors of all name spaces.
 *
 * The objects come in the order of loading, so behind our own object are those that came
 * with us or later. The loader holds its lock meanwhile: no object goes away. */
static int visit(struct dl_phdr_info *info, size_t size, void *behind_us)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t start = 0, end = 0, relro = 0, relro_end = 0;

    (void)size;
    if (!apart && (!*(bool *)behind_us || !is_ucx(info->dlpi_name))) {
        *(bool *)behind_us |= util_loader_has(info, &once);
        return 0;
    }
    if (info->dlpi_addr == getauxval(AT_BASE)) /* the loader: one for all name spaces */
        return 0;
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        uintptr_t at = info->dlpi_addr + segment->p_vaddr;
        if (segment->p_type == PT_DYNAMIC) {
            start = at;
            end = at + segment->p_memsz;
        } else if (segment->p_type == PT_GNU_RELRO) {
            relro = at & ~(page - 1);
            relro_end = (at + segment->p_memsz) & ~(page - 1);
        }
    }
    if (!start || forgotten((const ElfW(Dyn) *)start, info->dlpi_addr))
        return 0;
    bool closed = start < relro_end && end > relro;
    if (closed && mprotect((void *)relro, relro_end - relro, PROT_READ | PROT_WRITE) < 0)
        return 0;
    forget((ElfW(Dyn) *)start, info->dlpi_addr);
    if (closed)
        mprotect((void *)relro, relro_end - relro, PROT_READ);
    return 0;
}

static void find(void)
{
    Dl_info info;
    Lmid_t space = LM_ID_BASE;
    void *self;

    *(void **)&libc_dlopen = dlsym(RTLD_NEXT, "dlopen");
    *(void **)&libc_dlclose = dlsym(RTLD_NEXT, "dlclose");
    if (!libc_dlopen || !libc_dlclose || !dladdr(&once, &info) ||
        !(self = libc_dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD)))
        return;
    apart = dlinfo(self, RTLD_DI_LMID, &space) == 0 && space != LM_ID_BASE;
    libc_dlclose(self);
}

/* The loader visits the objects of the name space of its caller, which it knows by the
 * address that it returns to. Made as a tail call it would return into our own caller,
 * which may be another object: so something is left to be done here after it. */
static void visit_all(void)
{
    bool behind_us = false;

    dl_iterate_phdr(visit, &behind_us);
    __asm__ volatile("" ::: "memory");
}

void boot_modules_visit(const struct boot_loading *by)
{
    unsigned begun;

    pthread_once(&once, find);
    loading = by;
    begun = loading_begin();
    visit_all();
    loading_end(begun);
}

/* Called by libraries only: their run paths are not searched for a bare name, which none
 * of them opens.
 *
 * PMIx opens its components with RTLD_GLOBAL. In a name space that dlmopen() made there
 * is no global scope, and the loader dereferences its null pointer (add_to_global_resize,
 * glibc 2.36). A component finds PMIx's symbols by its own dependency on libpmix, so the
 * flag is dropped. */
DYAD_VISIBLE void *dlopen(const char *path, int mode)
{
    unsigned begun;
    void *handle;

    pthread_once(&once, find);
    if (!libc_dlopen)
        return NULL;
    begun = loading_begin();
    handle = libc_dlopen(path, apart ? mode & ~RTLD_GLOBAL : mode);
    if (handle)
        visit_all();
    loading_end(begun);
    return handle;
}

DYAD_VISIBLE int dlclose(void *handle)
{
    unsigned begun;
    int rc;

    pthread_once(&once, find);
    if (!libc_dlclose)
        return -1;
    begun = loading_begin();
    rc = libc_dlclose(handle);
    loading_end(begun);
    return rc;
}
