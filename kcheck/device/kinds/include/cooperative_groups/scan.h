#pragma once
#include <cooperative_groups.h>
#include_next <cooperative_groups/scan.h>
