// Weights to and from the layouts of others. The front door of deploy/.
#pragma once

#include "deploy/export_weights.h"       // IWYU pragma: export
#include "deploy/generate.h"             // IWYU pragma: export
#include "deploy/hugging_face_config.h"  // IWYU pragma: export
#include "deploy/network_facts.h"        // IWYU pragma: export
#include "deploy/text_stream.h"          // IWYU pragma: export
#include "deploy/weight_names.h"         // IWYU pragma: export
#include "deploy/weights_source.h"       // IWYU pragma: export
