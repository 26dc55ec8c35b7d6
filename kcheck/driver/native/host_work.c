/* Host functions of streams run on a thread of the program, in order; later work waits for them. */
#include "client.h"

struct host_work { void (*function)(void *); void (*callback)(u64, int, void *); u64 stream; void *data; struct host_work *next; };
static struct host_work *first_work, **last_work = &first_work;
static int pending;
static __thread int is_host_thread;
static pthread_mutex_t work_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t work_changed = PTHREAD_COND_INITIALIZER;

static void *run_host_work(void *unused) {
    (void)unused;
    is_host_thread = 1;
    pthread_mutex_lock(&work_lock);
    for (;;) {
        while (!first_work) pthread_cond_wait(&work_changed, &work_lock);
        struct host_work *work = first_work;
        if (!(first_work = work->next)) last_work = &first_work;
        pthread_mutex_unlock(&work_lock);
        if (work->function) work->function(work->data);
        else work->callback(work->stream, 0, work->data);
        free(work);
        pthread_mutex_lock(&work_lock);
        pending--;
        pthread_cond_broadcast(&work_changed);
    }
    return NULL;
}
static int add_host_work(struct host_work work) {
    static int is_started;
    pthread_mutex_lock(&work_lock);
    pthread_t thread;
    if (!is_started && !pthread_create(&thread, NULL, run_host_work, NULL)) is_started = 1, pthread_detach(thread);
    struct host_work *copy = malloc(sizeof work);
    *copy = work, copy->next = NULL;
    *last_work = copy, last_work = &copy->next;
    pending++;
    pthread_cond_broadcast(&work_changed);
    pthread_mutex_unlock(&work_lock);
    return 0;
}
void kc_wait_for_host_work(void) {
    if (!__atomic_load_n(&pending, __ATOMIC_ACQUIRE) || is_host_thread) return;
    pthread_mutex_lock(&work_lock);
    while (pending) pthread_cond_wait(&work_changed, &work_lock);
    pthread_mutex_unlock(&work_lock);
}
static int launch_host(u64 stream, u64 function, u64 data) {
    (void)stream;
    return add_host_work((struct host_work){.function = (void (*)(void *))function, .data = (void *)data});
}
static int add_callback(u64 stream, u64 function, u64 data, u64 flags) {
    (void)flags;
    return add_host_work((struct host_work){.callback = (void (*)(u64, int, void *))function, .stream = stream, .data = (void *)data});
}
const struct named kc_host_calls[] = {
    {"cuLaunchHostFunc", launch_host}, {"cuStreamAddCallback", add_callback}, {NULL, NULL},
};
