/* Stands for the wrapper where only its being preloaded counts. */
#include <stdlib.h>

__attribute__((visibility("default"))) int fake_wrapper_is_here;

__attribute__((constructor)) static void say(void)
{
    fake_wrapper_is_here = getenv("LD_PRELOAD") != NULL;
}
