// Generators of random numbers whose device is cuda.
#pragma once

#include <ATen/core/Generator.h>

namespace kcheck {

at::Generator new_generator();
const at::Generator& default_generator();
// The generator that PyTorch's operations draw from: a generator on cuda has one on the CPU.
at::Generator host_generator(const at::Generator& generator);

}  // namespace kcheck
