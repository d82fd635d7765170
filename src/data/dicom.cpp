// DCMTK's headers want their configuration first.
// clang-format off
#include <dcmtk/config/osconfig.h>
#include <dcmtk/dcmdata/dctk.h>
// clang-format on
#include <dcmtk/dcmdata/dccodec.h>
#include <dcmtk/dcmdata/dcistrmb.h>
#include <dcmtk/dcmdata/dcrledrg.h>
#include <dcmtk/dcmimage/diregist.h>
#include <dcmtk/dcmimgle/dcmimage.h>
#include <dcmtk/dcmjpeg/djdecode.h>
#include <dcmtk/dcmjpls/djdecode.h>
#include <fmt/format.h>

#include <memory>

#include "decode.h"

namespace fedgrab {
namespace {

constexpr std::string_view format = "DICOM";

/// Codecs belong to the process, and so does the log, which would write to the terminal.
void set_up_dcmtk() {
  static const bool once = [] {
    OFLog::configure(OFLogger::OFF_LOG_LEVEL);
    DJDecoderRegistration::registerCodecs();
    DJLSDecoderRegistration::registerCodecs();
    DcmRLEDecoderRegistration::registerCodecs();
    return true;
  }();
  static_cast<void>(once);
}

class DicomFile {
 public:
  DicomFile(std::span<const uint8_t> bytes, const std::string& name) : name_(name) {
    refuse_deflated(bytes);
    DcmInputBufferStream stream;
    load(stream, bytes);
    file_.transferInit();
    const auto status = file_.read(stream);
    file_.transferEnd();
    if (status.bad()) refuse(status.text());
  }

  DcmDataset& data() { return *file_.getDataset(); }
  E_TransferSyntax syntax() { return data().getOriginalXfer(); }

  /// 0 where the file does not say.
  uint16_t number(const DcmTagKey& tag) {
    Uint16 value = 0;
    data().findAndGetUint16(tag, value);
    return value;
  }

  std::string text(const DcmTagKey& tag) {
    OFString value;
    data().findAndGetOFString(tag, value);
    return {value.data(), value.size()};
  }

  [[noreturn]] void refuse(std::string_view why, std::string_view hint = "replace or remove it") const {
    unreadable(name_, format, why, hint);
  }

 private:
  static void load(DcmInputBufferStream& stream, std::span<const uint8_t> bytes) {
    stream.setBuffer(bytes.data(), static_cast<offile_off_t>(bytes.size()));
    stream.setEos();
  }

  /// A few packed bytes may announce gigabytes, and DCMTK unpacks all before the size can be queried.
  void refuse_deflated(std::span<const uint8_t> bytes) const {
    DcmInputBufferStream stream;
    load(stream, bytes);
    DcmMetaInfo head;
    head.transferInit();
    const auto status = head.read(stream);
    head.transferEnd();
    if (status.bad()) refuse(status.text());
    OFString syntax;
    head.findAndGetOFString(DCM_TransferSyntaxUID, syntax);
    if (syntax == UID_DeflatedExplicitVRLittleEndianTransferSyntax)
      refuse("its whole data set is deflated", "unpack it first: dcmconv +te FILE FILE");
  }

  const std::string& name_;
  DcmFileFormat file_;
};

struct Layout {
  explicit Layout(DicomFile& file)
      : height(file.number(DCM_Rows)),
        width(file.number(DCM_Columns)),
        samples(std::max<uint64_t>(file.number(DCM_SamplesPerPixel), 1)),
        bits_allocated(std::max<uint64_t>(file.number(DCM_BitsAllocated), 8)),
        bits_stored(file.number(DCM_BitsStored)) {}

  /// In the file, as it is there or unpacked; while DCMTK converts it, up to two numbers of 32 bits; and rendered.
  uint64_t bytes_per_pixel() const { return samples * ((bits_allocated + 7) / 8 + 8 + 1); }
  uint64_t stored_bytes() const { return height * width * samples * bits_allocated / 8; }

  uint64_t height, width, samples, bits_allocated, bits_stored;
};

void refuse_what_is_no_image(DicomFile& file) {
  if (!file.data().tagExists(DCM_PixelData)) file.refuse("it holds no image");
  if (const std::string frames = file.text(DCM_NumberOfFrames); !frames.empty() && frames != "1")
    file.refuse(fmt::format("it has {} frames", frames), "write a file per frame, with dcmj2pnm --all-frames say");
  const DcmXfer syntax(file.syntax());
  if (syntax.isEncapsulated() && !DcmCodecList::canChangeCoding(file.syntax(), EXS_LittleEndianExplicit))
    file.refuse(fmt::format("it is compressed as {}, which DCMTK cannot unpack", syntax.getXferName()),
                "unpack it first, with gdcmconv --raw say");
}

/// DCMTK fills what is missing with zeros.
void refuse_missing_pixels(DicomFile& file, const Layout& layout) {
  if (DcmXfer(file.syntax()).isEncapsulated()) return;
  DcmElement* pixels = nullptr;
  file.data().findAndGetElement(DCM_PixelData, pixels);
  uint64_t expected = layout.stored_bytes();
  if (file.text(DCM_PhotometricInterpretation) == "YBR_FULL_422") expected = expected / 3 * 2;
  if (pixels == nullptr || pixels->getLength() < expected) file.refuse("the file ends too early");
}

void set_window(DicomImage& image, const Layout& layout, MaybeLevels levels) {
  // A window of DICOM begins half a value below its lowest, and reaches over `width` values.
  if (levels)
    image.setWindow((levels->black + levels->white + 1) / 2, levels->white - levels->black + 1);
  else if (image.getWindowCount() > 0)
    image.setWindow(0);
  else if (image.getVoiLutCount() > 0)
    image.setVoiLut(0);
  else if (layout.bits_stored > 8)
    image.setMinMaxWindow(0);
  else
    image.setNoVoiTransformation();
}

}  // namespace

Image decode_dicom(std::span<const uint8_t> bytes, const std::string& name, MaybeLevels levels) {
  set_up_dcmtk();
  DicomFile file(bytes, name);
  refuse_what_is_no_image(file);
  const Layout layout(file);
  const auto memory = share_of_memory(name, format, layout.height, layout.width, layout.bytes_per_pixel());
  refuse_missing_pixels(file, layout);

  DicomImage source(&file.data(), file.syntax(), CIF_MayDetachPixelData);
  if (source.getStatus() != EIS_Normal) file.refuse(DicomImage::getString(source.getStatus()));
  const bool grey = source.isMonochrome();
  if (grey) set_window(source, layout, levels);
  source.hideAllOverlays();

  Image image{{grey ? 1 : 3, static_cast<int64_t>(source.getHeight()), static_cast<int64_t>(source.getWidth())}, {}};
  image.bytes.resize(static_cast<size_t>(image.shape.size()));
  image.memory = memory;
  constexpr int bits = 8, frame = 0, planes = 1;
  if (source.getOutputDataSize(bits) != image.bytes.size() ||
      source.getOutputData(image.bytes.data(), image.bytes.size(), bits, frame, planes) == 0)
    file.refuse("DCMTK cannot render it");
  return image;
}

}  // namespace fedgrab
