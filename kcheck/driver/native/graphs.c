/* Graphs, captured or built. A launch of a graph does the work of its nodes, in an order of their dependencies. */
#include "runtime.h"

struct node {
    struct work work;
    struct graph *graph;
    struct node **before;
    size_t count;
    int state; /* while nodes are sorted */
    int is_off;
    const struct node *origin; /* of a copy */
};
struct graph { struct node **nodes; size_t count; };

/* --- work */

static int fill_now(const struct work *w, handle stream) {
    int error = 0;
    for (size_t row = 0; row < w->height && !error && w->size; row++) {
        handle to = w->target + row * w->pitch;
        if (w->width == 4) error = DRIVER(cuMemsetD32Async, to, w->value, w->size, stream);
        else if (w->width == 2) error = DRIVER(cuMemsetD16Async, to, w->value, w->size, stream);
        else if (w->height > 1 && w->pitch == w->size) /* rows without gaps */
            return DRIVER(cuMemsetD8Async, w->target, w->value, w->size * w->height, stream);
        else error = DRIVER(cuMemsetD8Async, to, w->value, w->size, stream);
    }
    return error;
}

static int launch_nodes(struct graph *graph, handle stream) {
    int error = 0;
    for (size_t n = 0; n < graph->count && !error; n++)
        if (!graph->nodes[n]->is_off) error = kc_perform(&graph->nodes[n]->work, stream);
    return error;
}

int kc_perform(const struct work *w, handle stream) {
    switch (w->kind) {
    case WORK_KERNEL: return kc_run_launch(w->target, w->grid, w->block, w->shared, stream, w->cooperative, w->args);
    case WORK_COPY: return kc_copy(w->target, w->source, w->size, w->copy_kind, stream);
    case WORK_COPY_BOX: return DRIVER(cuMemcpy3DAsync, A(w->box), stream);
    case WORK_FILL: return fill_now(w, stream);
    case WORK_HOST: return DRIVER(cuLaunchHostFunc, stream, w->target, w->source);
    case WORK_EVENT: return w->source ? 0 : DRIVER(cuEventRecord, w->target, stream);
    case WORK_GRAPH: return launch_nodes(w->graph, stream);
    case WORK_FREE: return DRIVER(cuMemFree, w->target);
    default: return 0;
    }
}

int kc_do(struct work *work, handle stream) {
    void *capture = kc_captured(stream);
    if (!capture) return kc_perform(work, stream);
    kc_record(capture, work);
    return 0;
}

int kc_kernel_params(handle kernel, size_t *offsets, size_t *sizes, int most) {
    int n = 0;
    while (n < most && !DRIVER(cuFuncGetParamInfo, kernel, A(n), A(&offsets[n]), A(&sizes[n]))) n++;
    return n;
}

/* A recorded launch owns its arguments. */
static void own(struct work *w) {
    enum { MOST = 1024 };
    size_t offsets[MOST], sizes[MOST], total = 0;
    if (w->kind != WORK_KERNEL) return;
    int count = kc_kernel_params(w->target, offsets, sizes, MOST);
    for (int n = 0; n < count; n++) total = offsets[n] + sizes[n];
    char *storage = malloc(sizeof(void *) * (size_t)(count + 1) + total + 16);
    void **args = (void **)storage;
    char *values = (char *)(args + count + 1);
    for (int n = 0; n < count; n++) args[n] = memcpy(values + offsets[n], w->args[n], sizes[n]);
    args[count] = NULL;
    w->args = args, w->storage = storage;
}

static struct node *append(struct graph *graph, const struct work *work, struct node *const *before, size_t count) {
    struct node *node = calloc(1, sizeof *node);
    node->work = *work, node->graph = graph, node->count = count;
    own(&node->work);
    node->before = calloc(count + 1, sizeof *node->before);
    if (count) memcpy(node->before, before, count * sizeof *before);
    graph->nodes = realloc(graph->nodes, (graph->count + 1) * sizeof *graph->nodes);
    graph->nodes[graph->count++] = node;
    return node;
}

/* --- capture */

static struct captured_stream { handle stream; struct graph *graph; int is_origin; } streams[256];
static struct captured_event { handle event; struct graph *graph; } events[256];
static volatile int stream_count;
static int event_count;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static struct captured_stream *capture_of(handle stream) {
    for (int n = 0; n < stream_count; n++)
        if (streams[n].stream == stream) return &streams[n];
    return NULL;
}
void *kc_captured(handle stream) {
    if (!stream_count) return NULL;
    struct captured_stream *found = capture_of(stream);
    return found ? found->graph : NULL;
}
void kc_record(void *capture, struct work *work) {
    struct graph *graph = capture;
    pthread_mutex_lock(&lock);
    append(graph, work, graph->count ? &graph->nodes[graph->count - 1] : NULL, graph->count > 0);
    pthread_mutex_unlock(&lock);
}
static int begin(handle stream, struct graph *graph, int is_origin) {
    int error = stream <= 2 ? CAPTURE_UNSUPPORTED : capture_of(stream) ? 901 : stream_count == 256 ? OUT_OF_MEMORY : 0;
    if (!error) {
        streams[stream_count] = (struct captured_stream){stream, graph, is_origin};
        stream_count++;
    }
    return error;
}
static int end(handle stream, struct graph **out) {
    struct captured_stream *found = capture_of(stream);
    if (!found || !found->is_origin) return 903; /* cudaErrorStreamCaptureUnmatched */
    struct graph *graph = *out = found->graph;
    pthread_mutex_lock(&lock);
    int kept = 0;
    for (int n = 0; n < stream_count; n++)
        if (streams[n].graph != graph) streams[kept++] = streams[n];
    stream_count = kept;
    kept = 0;
    for (int n = 0; n < event_count; n++)
        if (events[n].graph != graph) events[kept++] = events[n];
    event_count = kept;
    pthread_mutex_unlock(&lock);
    return 0;
}
API int cudaStreamBeginCapture(handle stream, int mode) { (void)mode; RETURN(begin(stream, calloc(1, sizeof(struct graph)), 1)); }
API int cudaStreamBeginCaptureToGraph(handle stream, struct graph *graph, struct node **d, const void *data, size_t count, int mode) {
    (void)d, (void)data, (void)count, (void)mode;
    RETURN(begin(stream, graph, 1));
}
API int cudaStreamEndCapture(handle stream, struct graph **out) { RETURN(end(stream, out)); }
API int cudaStreamIsCapturing(handle stream, int *out) { *out = kc_captured(stream) != NULL; RETURN(0); }
API int cudaThreadExchangeStreamCaptureMode(int *mode) { *mode = 0; RETURN(0); }
static int capture_info(handle stream, int *status, u64 *id, struct graph **graph, struct node ***before, size_t *count) {
    struct graph *captured = kc_captured(stream);
    *status = captured != NULL;
    if (!captured) return 0;
    if (id) *id = A(captured);
    if (graph) *graph = captured;
    if (before && captured->count) *before = &captured->nodes[captured->count - 1];
    if (count) *count = captured->count > 0;
    return 0;
}
API int cudaStreamGetCaptureInfo_v2(handle stream, int *status, u64 *id, struct graph **graph, struct node ***before, size_t *count) {
    RETURN(capture_info(stream, status, id, graph, before, count));
}
#if KCHECK_VERSION >= 13000
API int cudaStreamGetCaptureInfo(handle stream, int *status, u64 *id, struct graph **graph, struct node ***before,
                                 const void **edges, size_t *count) {
    if (edges) *edges = NULL;
    RETURN(capture_info(stream, status, id, graph, before, count));
}
#else
API int cudaStreamGetCaptureInfo(handle stream, int *status, u64 *id) { RETURN(capture_info(stream, status, id, NULL, NULL, NULL)); }
#endif
PER_THREAD(cudaStreamBeginCapture, _ptsz)
PER_THREAD(cudaStreamBeginCaptureToGraph, _ptsz)
PER_THREAD(cudaStreamEndCapture, _ptsz)
PER_THREAD(cudaStreamIsCapturing, _ptsz)
PER_THREAD(cudaStreamGetCaptureInfo, _ptsz)
PER_THREAD(cudaStreamGetCaptureInfo_v2, _ptsz)

/* Another stream that waits for an event of a captured stream is captured, too. */
static int record_event(handle event, handle stream, u32 flags) {
    struct graph *graph = kc_captured(stream);
    if (!graph) return DRIVER(cuEventRecord, event, stream);
    pthread_mutex_lock(&lock);
    int n = 0;
    while (n < event_count && events[n].event != event) n++;
    if (n < 256) events[n] = (struct captured_event){event, graph}, event_count = n == event_count ? n + 1 : event_count;
    pthread_mutex_unlock(&lock);
    struct work work = {.kind = WORK_EVENT, .target = event};
    if (flags & 1) kc_record(graph, &work); /* cudaEventRecordExternal; others only order the graph */
    return 0;
}
static int wait_event(handle stream, handle event, u32 flags) {
    for (int n = 0; n < event_count; n++)
        if (events[n].event == event) return kc_captured(stream) ? 0 : begin(stream, events[n].graph, 0);
    return kc_captured(stream) ? 0 : DRIVER(cuStreamWaitEvent, stream, event, flags);
}
API int cudaEventRecord(handle event, handle stream) { RETURN(record_event(event, stream, 0)); }
API int cudaEventRecordWithFlags(handle event, handle stream, u32 flags) { RETURN(record_event(event, stream, flags)); }
API int cudaStreamWaitEvent(handle stream, handle event, u32 flags) { RETURN(wait_event(stream, event, flags)); }
PER_THREAD(cudaEventRecord, _ptsz)
PER_THREAD(cudaEventRecordWithFlags, _ptsz)
PER_THREAD(cudaStreamWaitEvent, _ptsz)

/* --- graphs that are built */

API int cudaGraphCreate(struct graph **out, u32 flags) { (void)flags; *out = calloc(1, sizeof **out); RETURN(0); }
static int add_node(struct node **out, struct graph *graph, struct node *const *before, size_t count, const struct work *work) {
    if (!graph || !out) return INVALID_VALUE;
    *out = append(graph, work, before, count);
    return 0;
}
#define BUILD_ARGUMENTS struct node **out, struct graph *graph, struct node *const *before, size_t count
#define BUILD(work) RETURN(add_node(out, graph, before, count, work))

struct kernel_params { const void *function; dim grid, block; u32 shared; void **args, **extra; };
static int kernel_work(struct work *w, const struct kernel_params *p) {
    *w = (struct work){.kind = WORK_KERNEL, .grid = p->grid, .block = p->block, .shared = p->shared, .args = p->args};
    return kc_function(p->function, &w->target);
}
API int cudaGraphAddKernelNode(BUILD_ARGUMENTS, const struct kernel_params *p) {
    struct work work;
    int error = kc_ready();
    if (!error) error = kernel_work(&work, p);
    if (error) return kc_keep(error);
    BUILD(&work);
}
API int cudaGraphAddEmptyNode(BUILD_ARGUMENTS) { struct work work = {.kind = WORK_EMPTY}; BUILD(&work); }
struct host_params { void *function, *data; };
API int cudaGraphAddHostNode(BUILD_ARGUMENTS, const struct host_params *p) {
    struct work work = {.kind = WORK_HOST, .target = A(p->function), .source = A(p->data)};
    BUILD(&work);
}
struct fill_params { void *to; size_t pitch; u32 value, element; size_t width, height; };
static struct work fill_work(const struct fill_params *p) {
    return (struct work){.kind = WORK_FILL, .target = A(p->to), .pitch = p->pitch, .value = p->value, .width = p->element,
                         .size = p->width, .height = p->height};
}
API int cudaGraphAddMemsetNode(BUILD_ARGUMENTS, const struct fill_params *p) { struct work work = fill_work(p); BUILD(&work); }
API int cudaGraphAddMemcpyNode1D(BUILD_ARGUMENTS, void *to, const void *from, size_t size, int kind) {
    struct work work = {.kind = WORK_COPY, .target = A(to), .source = A(from), .size = size, .copy_kind = kind};
    BUILD(&work);
}
/* A copy of a box between linear memories: cudaMemcpy3DParms. */
struct box_params { handle from_array; size_t fx, fy, fz; char *from; size_t fp, fw, fh; handle to_array; size_t tx, ty, tz; char *to; size_t tp, tw, th, width, height, depth; int kind; };
static int box_work(struct work *w, const struct box_params *p) {
    if (p->from_array || p->to_array) return NOT_SUPPORTED;
    *w = (struct work){.kind = WORK_COPY_BOX};
    int from_host = p->kind == 0 || p->kind == 1, to_host = p->kind == 0 || p->kind == 2;
    u64 from[10] = {p->fx, p->fy, p->fz, 0, p->kind == 4 ? 4 : from_host ? 1 : 2}, to[10] = {p->tx, p->ty, p->tz, 0, p->kind == 4 ? 4 : to_host ? 1 : 2};
    from[from_host ? 5 : 6] = A(p->from), to[to_host ? 5 : 6] = A(p->to);
    memcpy(w->box, from, 9 * sizeof(u64)), memcpy(w->box + 11, to, 9 * sizeof(u64));
    w->box[9] = p->fp, w->box[10] = p->fh, w->box[20] = p->tp, w->box[21] = p->th;
    w->box[22] = p->width, w->box[23] = p->height, w->box[24] = p->depth;
    return 0;
}
API int cudaGraphAddMemcpyNode(BUILD_ARGUMENTS, const struct box_params *p) {
    struct work work;
    int error = box_work(&work, p);
    if (error) return kc_refuse("cudaGraphAddMemcpyNode with an array");
    BUILD(&work);
}
API int cudaGraphAddChildGraphNode(BUILD_ARGUMENTS, struct graph *child) {
    struct work work = {.kind = WORK_GRAPH, .graph = child};
    BUILD(&work);
}
API int cudaGraphAddEventRecordNode(BUILD_ARGUMENTS, handle event) { struct work work = {.kind = WORK_EVENT, .target = event}; BUILD(&work); }
API int cudaGraphAddEventWaitNode(BUILD_ARGUMENTS, handle event) {
    struct work work = {.kind = WORK_EVENT, .target = event, .source = 1};
    BUILD(&work);
}
struct allocate_params { u32 properties[22]; const void *access; size_t access_count, size; void *address; };
API int cudaGraphAddMemAllocNode(BUILD_ARGUMENTS, struct allocate_params *p) {
    struct work work = {.kind = WORK_EMPTY};
    int error = kc_ready();
    if (!error) error = kc_allocate_for_graph(&p->address, p->size);
    if (error) return kc_keep(error);
    BUILD(&work);
}
API int cudaGraphAddMemFreeNode(BUILD_ARGUMENTS, void *address) {
    (void)address; /* it lives as long as the program: graphs may be launched again */
    struct work work = {.kind = WORK_EMPTY};
    BUILD(&work);
}

static void forget(struct graph *graph) {
    for (size_t n = 0; n < graph->count; n++) {
        free(graph->nodes[n]->work.storage), free(graph->nodes[n]->before), free(graph->nodes[n]);
    }
    free(graph->nodes), free(graph);
}
API int cudaGraphDestroy(struct graph *graph) { if (graph) forget(graph); RETURN(0); }
API int cudaGraphExecDestroy(struct graph *graph) { if (graph) forget(graph); RETURN(0); }

/* A node follows those it depends on. */
static void visit(struct node *node, struct graph *out) {
    if (node->state) return;
    node->state = 1;
    for (size_t n = 0; n < node->count; n++) visit(node->before[n], out);
    struct node *copy = append(out, &node->work, NULL, 0);
    copy->origin = node, copy->is_off = node->is_off;
}
static struct graph *copied(struct graph *graph) {
    struct graph *out = calloc(1, sizeof *out);
    for (size_t n = 0; n < graph->count; n++) graph->nodes[n]->state = 0;
    for (size_t n = 0; n < graph->count; n++) visit(graph->nodes[n], out);
    for (size_t n = 0; n < out->count; n++) { /* a copy of a child, which the program may destroy */
        struct work *w = &out->nodes[n]->work;
        if (w->kind == WORK_GRAPH) w->graph = copied(w->graph);
    }
    return out;
}
API int cudaGraphInstantiate(struct graph **out, struct graph *graph, u64 flags) { (void)flags; *out = copied(graph); RETURN(0); }
API int cudaGraphInstantiateWithFlags(struct graph **out, struct graph *graph, u64 flags) { (void)flags; *out = copied(graph); RETURN(0); }
API int cudaGraphInstantiateWithParams(struct graph **out, struct graph *graph, void *params) { (void)params; *out = copied(graph); RETURN(0); }
API int cudaGraphClone(struct graph **out, struct graph *graph) { *out = copied(graph); RETURN(0); }
API int cudaGraphUpload(struct graph *graph, handle stream) { (void)graph, (void)stream; RETURN(0); }
API int cudaGraphLaunch(struct graph *graph, handle stream) {
    struct work work = {.kind = WORK_GRAPH, .graph = graph};
    RETURN(kc_do(&work, stream));
}
PER_THREAD(cudaGraphLaunch, _ptsz)
PER_THREAD(cudaGraphUpload, _ptsz)
PER_THREAD(cudaGraphInstantiateWithParams, _ptsz)

static int same_shape(const struct graph *a, const struct graph *b) {
    if (a->count != b->count) return 0;
    for (size_t n = 0; n < a->count; n++)
        if (a->nodes[n]->work.kind != b->nodes[n]->work.kind) return 0;
    return 1;
}
API int cudaGraphExecUpdate(struct graph *exec, struct graph *graph, int *result) {
    struct graph *fresh = copied(graph);
    int is_same = same_shape(exec, fresh);
    if (result) *result = is_same ? 0 : 2; /* cudaGraphExecUpdateErrorTopologyChanged */
    if (is_same) { struct graph old = *exec; *exec = *fresh; *fresh = old; }
    forget(fresh);
    RETURN(is_same ? 0 : 910);
}
static struct node *in_exec(struct graph *exec, const struct node *node) {
    for (size_t n = 0; n < exec->count; n++)
        if (exec->nodes[n]->origin == node) return exec->nodes[n];
    return NULL;
}
static int replace(struct node *node, const struct work *work) {
    if (!node) return INVALID_VALUE;
    free(node->work.storage);
    node->work = *work;
    own(&node->work);
    return 0;
}
static int set_kernel(struct node *node, const struct kernel_params *p) {
    struct work work;
    int error = kernel_work(&work, p);
    return error ? error : replace(node, &work);
}
API int cudaGraphKernelNodeSetParams(struct node *node, const struct kernel_params *p) { RETURN(set_kernel(node, p)); }
API int cudaGraphExecKernelNodeSetParams(struct graph *exec, struct node *node, const struct kernel_params *p) {
    RETURN(set_kernel(in_exec(exec, node), p));
}
API int cudaGraphExecMemcpyNodeSetParams1D(struct graph *exec, struct node *node, void *to, const void *from, size_t size, int kind) {
    struct work work = {.kind = WORK_COPY, .target = A(to), .source = A(from), .size = size, .copy_kind = kind};
    RETURN(replace(in_exec(exec, node), &work));
}
API int cudaGraphExecMemsetNodeSetParams(struct graph *exec, struct node *node, const struct fill_params *p) {
    struct work work = fill_work(p);
    RETURN(replace(in_exec(exec, node), &work));
}
API int cudaGraphExecHostNodeSetParams(struct graph *exec, struct node *node, const struct host_params *p) {
    struct work work = {.kind = WORK_HOST, .target = A(p->function), .source = A(p->data)};
    RETURN(replace(in_exec(exec, node), &work));
}
API int cudaGraphNodeSetEnabled(struct graph *exec, struct node *node, u32 is_on) {
    struct node *found = in_exec(exec, node);
    if (found) found->is_off = !is_on;
    RETURN(found ? 0 : INVALID_VALUE);
}
API int cudaGraphNodeGetType(struct node *node, int *out) {
    static const int types[] = {0, 1, 1, 2, 3, 7, 5, 4, 10, 11};
    *out = types[node->work.kind];
    RETURN(0);
}
static int list(struct node **out, size_t *count, struct node *const *nodes, size_t have) {
    if (out) for (size_t n = 0; n < *count && n < have; n++) out[n] = nodes[n];
    if (!out || *count > have) *count = have;
    return 0;
}
API int cudaGraphGetNodes(struct graph *graph, struct node **out, size_t *count) { RETURN(list(out, count, graph->nodes, graph->count)); }
static int roots(struct graph *graph, struct node **out, size_t *count) {
    struct node **found = calloc(graph->count + 1, sizeof *found);
    size_t have = 0;
    for (size_t n = 0; n < graph->count; n++)
        if (!graph->nodes[n]->count) found[have++] = graph->nodes[n];
    list(out, count, found, have);
    free(found);
    return 0;
}
API int cudaGraphGetRootNodes(struct graph *graph, struct node **out, size_t *count) { RETURN(roots(graph, out, count)); }
static int depend(struct node *const *from, struct node *const *to, size_t count) {
    for (size_t n = 0; n < count; n++) {
        struct node *node = to[n];
        node->before = realloc(node->before, (node->count + 2) * sizeof *node->before);
        node->before[node->count++] = from[n];
    }
    return 0;
}
#if KCHECK_VERSION >= 13000
API int cudaGraphAddDependencies(struct graph *graph, struct node *const *from, struct node *const *to, const void *edges, size_t count) {
    (void)graph, (void)edges;
    RETURN(depend(from, to, count));
}
#else
API int cudaGraphAddDependencies(struct graph *graph, struct node *const *from, struct node *const *to, size_t count) {
    (void)graph;
    RETURN(depend(from, to, count));
}
#endif
