// Models in the forms that others load and run, and back. The front door of deploy/.
#pragma once

#include "deploy/export_graph.h"         // IWYU pragma: export
#include "deploy/export_weights.h"       // IWYU pragma: export
#include "deploy/generate.h"             // IWYU pragma: export
#include "deploy/graph_model.h"          // IWYU pragma: export
#include "deploy/hugging_face_config.h"  // IWYU pragma: export
#include "deploy/model_card.h"           // IWYU pragma: export
#include "deploy/network_facts.h"        // IWYU pragma: export
#include "deploy/predict.h"              // IWYU pragma: export
#include "deploy/serving.h"              // IWYU pragma: export
#include "deploy/signature.h"            // IWYU pragma: export
#include "deploy/tensorrt.h"             // IWYU pragma: export
#include "deploy/text_stream.h"          // IWYU pragma: export
#include "deploy/tokenizer_files.h"      // IWYU pragma: export
#include "deploy/weight_names.h"         // IWYU pragma: export
#include "deploy/weights_source.h"       // IWYU pragma: export
