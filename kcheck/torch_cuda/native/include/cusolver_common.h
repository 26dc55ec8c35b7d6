// See cublas_v2.h.
#pragma once

#include <cusolverDn.h>
