#include "run_events.h"

#include <optional>

#include "fedgrab/experiment/evaluation.h"

namespace fedgrab {
namespace {

constexpr size_t largest_curves = 200;  // classes with a curve each

}  // namespace

void write_events(TensorBoardWriter& tensorboard, const RoundRecord& record, const std::vector<std::string>& classes,
                  const std::vector<std::vector<int64_t>>& confusion) {
  const auto scalar = [&](const char* tag, const std::optional<double>& value) {
    if (value) tensorboard.add_scalar(tag, *value, record.round);
  };
  scalar("loss/train", record.loss);
  scalar("loss/test", record.test_loss);
  if (const auto& a = record.accuracy) {
    scalar("accuracy/all", a->all);
    scalar("accuracy/many", a->many);
    scalar("accuracy/med", a->med);
    scalar("accuracy/few", a->few);
    scalar("accuracy/macro_f1", a->f1);
    for (const auto& [measure, value] : a->measures)
      tensorboard.add_scalar("measure/" + name_of(measure), value, record.round);
    for (size_t c = 0; c < classes.size() && classes.size() <= largest_curves; ++c)
      tensorboard.add_scalar("class/" + classes[c], a->per_class[c], record.round);
  }
  if (record.validation) scalar("accuracy/validation", record.validation->all);
  scalar("accuracy/personal", record.personal);
  if (record.prior) {
    scalar("prior/l2", record.prior->l2);
    scalar("prior/tail_hit", record.prior->tail_hit);
  }
  if (!confusion.empty()) tensorboard.add_image("confusion", confusion_image(confusion), record.round);
  tensorboard.flush();
}

}  // namespace fedgrab
