/*
 * constructor.c - a library whose constructor calls back into the program, which thus runs
 * with the dynamic loader's lock held
 */
#include <dlfcn.h>

__attribute__((constructor)) static void construct(void)
{
    void (*hook)(void) = (void (*)(void))dlsym(RTLD_DEFAULT, "actor_hook");

    if (hook)
        hook();
}
