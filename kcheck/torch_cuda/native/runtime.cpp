// The functions of the CUDA runtime that extensions of PyTorch call, on top of the driver in this process. A kernel is
// loaded from the PTX in the fat binary that nvcc has put into the extension.
#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace {

// --- the driver

using Result = int;  // CUresult; the runtime has the same numbers
constexpr Result NOT_SUPPORTED = 801, NOT_FOUND = 500, NO_BINARY = 209, INVALID_KERNEL = 98;

void* driver_function(const char* name) {
  using Lookup = Result (*)(const char*, void**, int, uint64_t, void*);
  static auto lookup = reinterpret_cast<Lookup>(dlsym(RTLD_DEFAULT, "cuGetProcAddress_v2"));
  void* found = nullptr;
  if (lookup) lookup(name, &found, 13000, 0, nullptr);
  return found;
}

template <class... A>
Result call(void*& known, const char* name, A... arguments) {
  if (!known) known = driver_function(name);
  return known ? reinterpret_cast<Result (*)(A...)>(known)(arguments...) : 3;
}

// Calls a function of the driver; each place of the program looks it up once.
#define DRIVER(name, ...)              \
  [&] {                                \
    static void* known = nullptr;      \
    return call(known, #name, ##__VA_ARGS__); \
  }()

thread_local cudaError_t last = cudaSuccess;

cudaError_t told(Result result) {
  auto error = static_cast<cudaError_t>(result);
  if (error != cudaSuccess && error != cudaErrorNotReady) last = error;
  return error;
}

Result ready() {
  static thread_local bool is_ready = false;
  if (is_ready) return 0;
  void* context = nullptr;
  Result result = DRIVER(cuInit, 0u);
  if (!result) result = DRIVER(cuDevicePrimaryCtxRetain, &context, 0);
  if (!result) result = DRIVER(cuCtxSetCurrent, context);
  is_ready = !result;
  return result;
}

uint64_t number(const void* pointer) { return reinterpret_cast<uint64_t>(pointer); }

// --- modules, kernels and variables

struct Wrapper {
  uint32_t magic, version;
  const char* data;
  void* unused;
};

struct Module {
  const Wrapper* wrapper;
  uint64_t handle = 0;
  bool tried = false;
};

struct Kernel {
  Module* module;
  std::string name;
  uint64_t handle = 0;
};

struct Variable {
  Module* module;
  std::string name;
  size_t size;
};

std::recursive_mutex mutex;
std::map<const void*, Kernel> kernels;
std::map<const void*, Variable> variables;

template <class T>
T read(const char* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

// The PTX in a fat binary: a header, then entries of a header and a payload each. Builds here do not compress.
std::string ptx_of(const char* data) {
  if (read<uint32_t>(data) != 0xBA55ED50) return "";
  size_t at = read<uint16_t>(data + 6), end = at + read<uint64_t>(data + 8);
  std::string newest;
  while (at < end) {
    auto kind = read<uint16_t>(data + at);
    auto header = read<uint32_t>(data + at + 4);
    auto size = read<uint64_t>(data + at + 8);
    constexpr uint16_t PTX = 1;
    const char* text = data + at + header;
    if (kind == PTX && std::strncmp(text, "\x28\xb5\x2f\xfd", 4) != 0) newest.assign(text, strnlen(text, size));
    at += header + size;
  }
  return newest;
}

Result load(Module& module) {
  if (module.handle) return 0;
  if (module.tried) return NO_BINARY;
  module.tried = true;
  std::string ptx = ptx_of(module.wrapper->data);
  if (ptx.empty()) {
    std::fputs("kcheck: this extension has machine code only; compile it with -gencode arch=compute_80,code=compute_80 "
               "-no-compress\n", stderr);
    return NO_BINARY;
  }
  return DRIVER(cuModuleLoadData, &module.handle, ptx.c_str());
}

Result kernel_of(const void* function, uint64_t* handle) {
  std::lock_guard<std::recursive_mutex> lock(mutex);
  auto found = kernels.find(function);
  if (found == kernels.end()) {
    for (auto& [key, kernel] : kernels)
      if (kernel.handle && kernel.handle == number(function)) {
        *handle = kernel.handle;
        return 0;
      }
    return INVALID_KERNEL;
  }
  auto& kernel = found->second;
  Result result = ready();
  if (!result) result = load(*kernel.module);
  if (!result && !kernel.handle)
    result = DRIVER(cuModuleGetFunction, &kernel.handle, kernel.module->handle, kernel.name.c_str());
  *handle = kernel.handle;
  return result == NOT_FOUND ? INVALID_KERNEL : result;
}

Result variable_of(const void* symbol, uint64_t* address, size_t* size) {
  std::lock_guard<std::recursive_mutex> lock(mutex);
  auto found = variables.find(symbol);
  if (found == variables.end()) return cudaErrorInvalidSymbol;
  Result result = ready();
  if (!result) result = load(*found->second.module);
  return result ? result
                : DRIVER(cuModuleGetGlobal, address, size, found->second.module->handle, found->second.name.c_str());
}

Result launched(Result result) { return result == cudaErrorInvalidValue ? cudaErrorInvalidConfiguration : result; }

cudaError_t launch(const void* function, dim3 grid, dim3 block, void** args, size_t shared, cudaStream_t stream) {
  uint64_t handle;
  Result result = kernel_of(function, &handle);
  if (!result)
    result = launched(DRIVER(cuLaunchKernel, handle, grid.x, grid.y, grid.z, block.x, block.y, block.z,
        static_cast<uint32_t>(shared), number(stream), args, static_cast<void**>(nullptr)));
  return told(result);
}

int attribute(int which) {
  int value = 0;
  if (!ready()) DRIVER(cuDeviceGetAttribute, &value, which, 0);
  return value;
}

Result copy(void* target, const void* source, size_t size, cudaMemcpyKind kind, cudaStream_t stream) {
  if (Result result = ready()) return result;
  if (!size) return 0;
  switch (kind) {
    case cudaMemcpyHostToDevice: return DRIVER(cuMemcpyHtoDAsync, number(target), number(source), size, number(stream));
    case cudaMemcpyDeviceToHost: return DRIVER(cuMemcpyDtoHAsync, number(target), number(source), size, number(stream));
    case cudaMemcpyDeviceToDevice:
      return DRIVER(cuMemcpyDtoDAsync, number(target), number(source), size, number(stream));
    default: return DRIVER(cuMemcpyAsync, number(target), number(source), size, number(stream));
  }
}

Result fill(void* target, int value, size_t size, cudaStream_t stream) {
  if (Result result = ready()) return result;
  return size ? DRIVER(cuMemsetD8Async, number(target), static_cast<uint8_t>(value), size, number(stream)) : 0;
}

Result allocate(void** out, size_t size) {
  *out = nullptr;
  if (Result result = ready()) return result;
  return size ? DRIVER(cuMemAlloc, out, size) : 0;
}

struct Configuration {
  dim3 grid, block;
  size_t shared;
  void* stream;
};
thread_local std::vector<Configuration> configurations;

}  // namespace

extern "C" {

// --- what nvcc's code calls

void** __cudaRegisterFatBinary(void* wrapper) {
  return reinterpret_cast<void**>(new Module{static_cast<const Wrapper*>(wrapper)});
}
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}  // the process ends
char __cudaInitModule(void**) { return 1; }
void __cudaRegisterFunction(void** module, const char* host, char*, const char* name, int, uint3*, uint3*, dim3*, dim3*, int*) {
  std::lock_guard<std::recursive_mutex> lock(mutex);
  kernels[host] = {reinterpret_cast<Module*>(module), name};
}
void __cudaRegisterVar(void** module, char* host, char*, const char* name, int, size_t size, int, int) {
  std::lock_guard<std::recursive_mutex> lock(mutex);
  variables[host] = {reinterpret_cast<Module*>(module), name, size};
}
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, void* stream) {
  configurations.push_back({grid, block, shared, stream});
  return 0;
}
cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared, void* stream) {
  auto top = configurations.back();
  configurations.pop_back();
  *grid = top.grid, *block = top.block, *shared = top.shared, *static_cast<void**>(stream) = top.stream;
  return cudaSuccess;
}
cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* function) {
  *kernel = reinterpret_cast<cudaKernel_t>(const_cast<void*>(function));  // found when it is launched
  return cudaSuccess;
}
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** args, size_t shared, cudaStream_t stream) {
  return launch(kernel, grid, block, args, shared, stream);
}

// --- launches

cudaError_t cudaLaunchKernel(const void* function, dim3 grid, dim3 block, void** args, size_t shared, cudaStream_t stream) {
  return launch(function, grid, block, args, shared, stream);
}
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* function, void** args) {
  for (unsigned n = 0; n < config->numAttrs; n++)
    if (config->attrs[n].id == cudaLaunchAttributeCooperative && config->attrs[n].val.cooperative)
      return cudaLaunchCooperativeKernel(function, config->gridDim, config->blockDim, args, config->dynamicSmemBytes, config->stream);
  return launch(function, config->gridDim, config->blockDim, args, config->dynamicSmemBytes, config->stream);
}
cudaError_t cudaLaunchCooperativeKernel(const void* function, dim3 grid, dim3 block, void** args, size_t shared, cudaStream_t stream) {
  uint64_t handle;
  Result result = kernel_of(function, &handle);
  if (!result)
    result = launched(DRIVER(cuLaunchCooperativeKernel, handle, grid.x, grid.y, grid.z, block.x, block.y, block.z,
        static_cast<uint32_t>(shared), number(stream), args));
  return told(result);
}
cudaError_t cudaFuncSetAttribute(const void* function, cudaFuncAttribute which, int value) {
  uint64_t handle;
  Result result = kernel_of(function, &handle);
  return told(result ? result : DRIVER(cuFuncSetAttribute, handle, static_cast<int>(which), value));
}
cudaError_t cudaFuncSetCacheConfig(const void*, cudaFuncCache) { return cudaSuccess; }
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* out, const void* function) {
  uint64_t handle;
  std::memset(out, 0, sizeof *out);
  if (Result result = kernel_of(function, &handle)) return told(result);
  auto get = [&](int which) {
    int value = 0;
    DRIVER(cuFuncGetAttribute, &value, which, handle);
    return value;
  };
  out->maxThreadsPerBlock = get(0), out->sharedSizeBytes = get(1), out->constSizeBytes = get(2);
  out->localSizeBytes = get(3), out->numRegs = get(4), out->ptxVersion = get(5), out->binaryVersion = get(6);
  out->maxDynamicSharedSizeBytes = get(8);
  return cudaSuccess;
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void* function, int threads, size_t shared, unsigned flags) {
  uint64_t handle;
  Result result = kernel_of(function, &handle);
  return told(result ? result : DRIVER(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, blocks, handle, threads, shared, flags));
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* function, int threads, size_t shared) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, function, threads, shared, 0);
}

// --- memory

cudaError_t cudaMalloc(void** out, size_t size) { return told(allocate(out, size)); }
cudaError_t cudaMallocAsync(void** out, size_t size, cudaStream_t) { return told(allocate(out, size)); }
cudaError_t cudaMallocManaged(void** out, size_t size, unsigned) {
  Result result = ready();
  return told(result ? result : DRIVER(cuMemAllocManaged, out, size, 1u));
}
cudaError_t cudaMallocHost(void** out, size_t size) {
  Result result = ready();
  return told(result ? result : DRIVER(cuMemAllocHost, out, size));
}
cudaError_t cudaHostAlloc(void** out, size_t size, unsigned) { return cudaMallocHost(out, size); }
cudaError_t cudaFree(void* address) {
  Result result = ready();
  return told(result || !address ? result : DRIVER(cuMemFree, number(address)));
}
cudaError_t cudaFreeAsync(void* address, cudaStream_t) { return cudaFree(address); }
cudaError_t cudaFreeHost(void* address) {
  Result result = ready();
  return told(result || !address ? result : DRIVER(cuMemFreeHost, number(address)));
}
cudaError_t cudaMemcpy(void* target, const void* source, size_t size, cudaMemcpyKind kind) {
  return told(copy(target, source, size, kind, nullptr));
}
cudaError_t cudaMemcpyAsync(void* target, const void* source, size_t size, cudaMemcpyKind kind, cudaStream_t stream) {
  return told(copy(target, source, size, kind, stream));
}
cudaError_t cudaMemset(void* target, int value, size_t size) { return told(fill(target, value, size, nullptr)); }
cudaError_t cudaMemsetAsync(void* target, int value, size_t size, cudaStream_t stream) {
  return told(fill(target, value, size, stream));
}
cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  Result result = ready();
  return told(result ? result : DRIVER(cuMemGetInfo, free, total));
}
cudaError_t cudaGetSymbolAddress(void** address, const void* symbol) {
  size_t size;
  return told(variable_of(symbol, reinterpret_cast<uint64_t*>(address), &size));
}
cudaError_t cudaGetSymbolSize(size_t* size, const void* symbol) {
  uint64_t address;
  return told(variable_of(symbol, &address, size));
}
cudaError_t cudaMemcpyToSymbolAsync(const void* symbol, const void* source, size_t size, size_t offset, cudaMemcpyKind kind, cudaStream_t stream) {
  uint64_t address;
  size_t most;
  if (Result result = variable_of(symbol, &address, &most)) return told(result);
  if (offset + size > most) return told(cudaErrorInvalidValue);
  return told(copy(reinterpret_cast<void*>(address + offset), source, size, kind, stream));
}
cudaError_t cudaMemcpyToSymbol(const void* symbol, const void* source, size_t size, size_t offset, cudaMemcpyKind kind) {
  return cudaMemcpyToSymbolAsync(symbol, source, size, offset, kind, nullptr);
}
cudaError_t cudaMemcpyFromSymbolAsync(void* target, const void* symbol, size_t size, size_t offset, cudaMemcpyKind kind, cudaStream_t stream) {
  uint64_t address;
  size_t most;
  if (Result result = variable_of(symbol, &address, &most)) return told(result);
  if (offset + size > most) return told(cudaErrorInvalidValue);
  return told(copy(target, reinterpret_cast<void*>(address + offset), size, kind, stream));
}
cudaError_t cudaMemcpyFromSymbol(void* target, const void* symbol, size_t size, size_t offset, cudaMemcpyKind kind) {
  return cudaMemcpyFromSymbolAsync(target, symbol, size, offset, kind, nullptr);
}
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* out, const void* address) {
  std::memset(out, 0, sizeof *out);
  if (Result result = ready()) return told(result);
  uint32_t kind = 0;
  constexpr int MEMORY_TYPE = 2;
  bool is_known = !DRIVER(cuPointerGetAttribute, &kind, MEMORY_TYPE, number(address));
  out->type = !is_known ? cudaMemoryTypeUnregistered : static_cast<cudaMemoryType>(kind);
  out->devicePointer = is_known ? const_cast<void*>(address) : nullptr;
  out->hostPointer = is_known && out->type == cudaMemoryTypeDevice ? nullptr : const_cast<void*>(address);
  return cudaSuccess;
}

// --- the device

cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) { return told(device ? cudaErrorInvalidDevice : ready()); }
cudaError_t cudaGetDeviceCount(int* count) {
  *count = 1;
  return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize() {
  Result result = ready();
  return told(result ? result : DRIVER(cuCtxSynchronize));
}
cudaError_t cudaDeviceReset() { return cudaSuccess; }  // the tensors of PyTorch stay
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr which, int device) {
  if (device) return told(cudaErrorInvalidDevice);
  Result result = ready();
  return told(result ? result : DRIVER(cuDeviceGetAttribute, value, static_cast<int>(which), 0));
}
cudaError_t cudaDeviceSetCacheConfig(cudaFuncCache) { return cudaSuccess; }
cudaError_t cudaDeviceSetLimit(cudaLimit which, size_t value) {
  Result result = ready();
  return told(result ? result : DRIVER(cuCtxSetLimit, static_cast<int>(which), value));
}
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0, *greatest = -5;
  return cudaSuccess;
}
cudaError_t cudaDeviceCanAccessPeer(int* can, int, int) {
  *can = 0;
  return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int* version) { return told(DRIVER(cuDriverGetVersion, version)); }
cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* out, int device) {
  std::memset(out, 0, sizeof *out);
  if (device) return told(cudaErrorInvalidDevice);
  if (Result result = ready()) return told(result);
  DRIVER(cuDeviceGetName, out->name, static_cast<int>(sizeof out->name), 0);
  DRIVER(cuDeviceTotalMem, &out->totalGlobalMem, 0);
  out->maxThreadsPerBlock = attribute(1);
  for (int axis = 0; axis < 3; axis++) out->maxThreadsDim[axis] = attribute(2 + axis), out->maxGridSize[axis] = attribute(5 + axis);
  out->sharedMemPerBlock = attribute(8), out->totalConstMem = attribute(9), out->warpSize = attribute(10);
  out->memPitch = attribute(11), out->regsPerBlock = attribute(12), out->textureAlignment = attribute(14);
  out->multiProcessorCount = attribute(16), out->integrated = attribute(18), out->canMapHostMemory = attribute(19);
  out->concurrentKernels = attribute(31), out->memoryBusWidth = attribute(37), out->l2CacheSize = attribute(38);
  out->maxThreadsPerMultiProcessor = attribute(39), out->asyncEngineCount = attribute(40), out->unifiedAddressing = attribute(41);
  out->major = attribute(75), out->minor = attribute(76), out->sharedMemPerMultiprocessor = attribute(81);
  out->regsPerMultiprocessor = attribute(82), out->managedMemory = attribute(83), out->cooperativeLaunch = attribute(95);
  out->sharedMemPerBlockOptin = attribute(97), out->maxBlocksPerMultiProcessor = attribute(106);
  out->reservedSharedMemPerBlock = attribute(111);
  return cudaSuccess;
}

// --- streams and events

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority) {
  Result result = ready();
  return told(result ? result : DRIVER(cuStreamCreateWithPriority, stream, flags, priority));
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) { return cudaStreamCreateWithPriority(stream, flags, 0); }
cudaError_t cudaStreamCreate(cudaStream_t* stream) { return cudaStreamCreateWithPriority(stream, 0, 0); }
cudaError_t cudaStreamDestroy(cudaStream_t stream) { return told(DRIVER(cuStreamDestroy, number(stream))); }
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  Result result = ready();
  return told(result ? result : DRIVER(cuStreamSynchronize, number(stream)));
}
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  Result result = ready();
  return told(result ? result : DRIVER(cuStreamQuery, number(stream)));
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
  return told(DRIVER(cuStreamWaitEvent, number(stream), number(event), flags));
}
cudaError_t cudaStreamGetPriority(cudaStream_t stream, int* priority) { return told(DRIVER(cuStreamGetPriority, number(stream), priority)); }
cudaError_t cudaStreamIsCapturing(cudaStream_t, cudaStreamCaptureStatus* status) {
  *status = cudaStreamCaptureStatusNone;
  return cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  Result result = ready();
  return told(result ? result : DRIVER(cuEventCreate, event, flags));
}
cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, 0); }
cudaError_t cudaEventDestroy(cudaEvent_t event) { return told(DRIVER(cuEventDestroy, number(event))); }
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) { return told(DRIVER(cuEventRecord, number(event), number(stream))); }
cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned) { return cudaEventRecord(event, stream); }
cudaError_t cudaEventQuery(cudaEvent_t event) { return told(DRIVER(cuEventQuery, number(event))); }
cudaError_t cudaEventSynchronize(cudaEvent_t event) { return told(DRIVER(cuEventSynchronize, number(event))); }
cudaError_t cudaEventElapsedTime(float* out, cudaEvent_t first, cudaEvent_t second) {
  return told(DRIVER(cuEventElapsedTime, out, number(first), number(second)));
}

// --- errors

cudaError_t cudaGetLastError() {
  auto error = last;
  last = cudaSuccess;
  return error;
}
cudaError_t cudaPeekAtLastError() { return last; }
const char* cudaGetErrorName(cudaError_t error) {
  static thread_local char text[32];
  switch (error) {
    case cudaSuccess: return "cudaSuccess";
    case cudaErrorInvalidValue: return "cudaErrorInvalidValue";
    case cudaErrorMemoryAllocation: return "cudaErrorMemoryAllocation";
    case cudaErrorInvalidConfiguration: return "cudaErrorInvalidConfiguration";
    case cudaErrorIllegalAddress: return "cudaErrorIllegalAddress";
    case cudaErrorMisalignedAddress: return "cudaErrorMisalignedAddress";
    case cudaErrorLaunchFailure: return "cudaErrorLaunchFailure";
    default: std::snprintf(text, sizeof text, "cudaError %d", error); return text;
  }
}
const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaSuccess: return "no error";
    case cudaErrorInvalidValue: return "invalid argument";
    case cudaErrorMemoryAllocation: return "out of memory";
    case cudaErrorInvalidConfiguration: return "invalid configuration argument";
    case cudaErrorInvalidSymbol: return "invalid device symbol";
    case cudaErrorInvalidDeviceFunction: return "invalid device function";
    case cudaErrorInvalidDevice: return "invalid device ordinal";
    case cudaErrorNoKernelImageForDevice: return "no kernel image is available for execution on the device";
    case cudaErrorInvalidPtx: return "a PTX JIT compilation failed";
    case cudaErrorInvalidResourceHandle: return "invalid resource handle";
    case cudaErrorNotReady: return "device not ready";
    case cudaErrorIllegalAddress: return "an illegal memory access was encountered";
    case cudaErrorLaunchOutOfResources: return "too many resources requested for launch";
    case cudaErrorLaunchTimeout: return "the launch timed out and was terminated";
    case cudaErrorAssert: return "device-side assert triggered";
    case cudaErrorMisalignedAddress: return "misaligned address";
    case cudaErrorLaunchFailure: return "unspecified launch failure";
    case cudaErrorCooperativeLaunchTooLarge: return "too many blocks in cooperative launch";
    case cudaErrorNotSupported: return "operation not supported";
    default: return cudaGetErrorName(error);
  }
}

}  // extern "C"
