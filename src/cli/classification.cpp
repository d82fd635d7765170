#include "classification.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "fedgrab/core/error.h"
#include "fedgrab/core/interrupt.h"
#include "fedgrab/core/parallel.h"
#include "fedgrab/core/patient_progress.h"
#include "fedgrab/engine/engine.h"
#include "fedgrab/experiment/settings.h"

namespace fedgrab::cli {
namespace {

constexpr int64_t block_bytes = int64_t{256} << 20;  // of floats, as the network reads them

class Classifier {
 public:
  Classifier(const LoadedModel& model, const ImageFiles& files, const ClassifyOptions& options)
      : model_(model),
        files_(files),
        options_(options),
        settings_(read_settings(resolve_config({model.file.string(), model.card.config}, {}))) {
    data_.class_names = model.card.class_names;
    data_.normalisation = model.card.normalisation;
    data_.train.images.shape = model.card.input;
    result_.skipped = files.unreadable;
  }

  Classification run() {
    const Partition nobody;
    const Federation federation{data_, nobody, model_.state.model, settings_.train};
    const auto engine = make_engine({.device = Device::cpu}, federation);  // all of it in float32
    const auto each = model_.card.input.size() * static_cast<int64_t>(sizeof(float));
    const auto most = std::max(block_bytes / each, int64_t{1});
    const auto block = std::min(most, evaluation_batch * available_cores());
    for (int64_t first = 0; first < count(); first += block) {
      throw_if_interrupted();
      classify_block(*engine, first, std::min(block, count() - first));
    }
    add_warnings();
    return std::move(result_);
  }

 private:
  int64_t count() const { return static_cast<int64_t>(files_.files.size()); }

  struct Read {
    std::optional<LoneImage> image;
    std::string problem;
  };

  Read read(const ImageFile& file) const {
    try {
      LoneImage one = read_alone(file.path, settings_.data, model_.card.input);
      // With data.channels = 1, training converts as well.
      const bool fits = model_.card.input.channels == 3 || settings_.data.channels == 1 || options_.convert;
      if (one.colour && !fits)
        throw Error(Fault::data, file.path.string(), "is a colour image, and the model was trained on grey ones",
                    "--convert reads it as grey");
      return {std::move(one), {}};
    } catch (const Error& error) {
      if (file.named || error.fault() != Fault::data) throw;
      return {{}, error.what()};
    }
  }

  void classify_block(Engine& engine, int64_t first, int64_t size) {
    std::vector<Read> block(static_cast<size_t>(size));
    parallel_for(size, available_cores(), [&](int64_t i, int /*worker*/) {
      throw_if_interrupted();
      block[static_cast<size_t>(i)] = read(files_.files[static_cast<size_t>(first + i)]);
      progress_.step();
    });
    std::vector<uint8_t> bytes;
    std::vector<const ImageFile*> sources;
    int64_t margin = 0;
    for (size_t i = 0; i < block.size(); ++i) {
      const auto& one = block[i].image;
      if (!one) {
        result_.skipped.push_back(block[i].problem);
        continue;
      }
      sources.push_back(&files_.files[static_cast<size_t>(first) + i]);
      bytes.insert(bytes.end(), one->image.bytes.begin(), one->image.bytes.end());
      margin = one->image.margin;
      note_source(*one);
    }
    Split split{Images::own(model_.card.input, std::move(bytes)), std::vector<int32_t>(sources.size())};
    split.images.margin = margin;
    if (!sources.empty()) take(engine.predict(model_.state, split, true).logits, sources);
  }

  void take(const torch::Tensor& logits, const std::vector<const ImageFile*>& sources) {
    const auto all = logits.softmax(1);
    const auto finite = all.isfinite().all(1);
    const auto [values, classes] = all.topk(std::min<int64_t>(options_.top, all.size(1)), 1);
    const auto numbers = classes.to(torch::kInt).contiguous();
    const auto shares = values.contiguous();
    for (size_t i = 0; i < sources.size(); ++i) {
      const auto row = static_cast<int64_t>(i);
      if (!finite[row].item<bool>())
        throw Error(Fault::checkpoint, sources[i]->path.string(), "the predictions contain NaN",
                    "training diverged: lower train.lr");
      const auto* number = numbers[row].data_ptr<int32_t>();
      const auto* share = shares[row].data_ptr<float>();
      result_.images.push_back({sources[i], {number, number + numbers.size(1)}, {share, share + numbers.size(1)}});
    }
  }

  /// What the files had that the model was trained on, where that is known.
  std::optional<ImageShape> trained_on() const {
    if (model_.card.source) return model_.card.source;
    return resizes_images(settings_.data) ? std::nullopt : std::optional(model_.card.input);
  }

  void note_source(const LoneImage& one) {
    constexpr double far = 4;  // times the side
    if (!one.colour) ++without_colour_;
    const auto usual = trained_on();
    if (!usual) return;
    const auto area = [](const ImageShape& shape) { return static_cast<double>(shape.height * shape.width); };
    const double ratio = std::sqrt(area(one.source) / area(*usual));
    if (ratio < far && ratio > 1 / far) return;
    if (other_size_++ == 0) first_size_ = one.source;
  }

  void add_warnings() {
    const auto images = result_.images.size();
    if (other_size_ > 0)
      result_.warnings.push_back(fmt::format(
          "{} of {} images have another size than those the model was trained on ({}x{} pixels, the first of them "
          "{}x{}): their predictions may mean nothing",
          other_size_, images, trained_on()->width, trained_on()->height, first_size_.width, first_size_.height));
    if (model_.card.input.channels == 3 && settings_.data.channels == 0 && without_colour_ > 0)
      result_.warnings.push_back(fmt::format(
          "{} of {} images have no colours, and the model was trained on colour images", without_colour_, images));
  }

  const LoadedModel& model_;
  const ImageFiles& files_;
  const ClassifyOptions options_;
  const Settings settings_;
  Dataset data_;
  Classification result_;
  PatientProgress progress_{"classifying images", count()};
  int64_t other_size_ = 0, without_colour_ = 0;
  ImageShape first_size_;
};

}  // namespace

Classification classify(const LoadedModel& model, const ImageFiles& files, const ClassifyOptions& options) {
  return Classifier(model, files, options).run();
}

}  // namespace fedgrab::cli
