/** Numbers as people read them. */

export const share = (value: number | null | undefined): string => (value == null ? "–" : value.toFixed(3));

export function bytes(count: number): string {
  const units = ["B", "kB", "MB", "GB", "TB", "PB"];
  let unit = 0;
  while (count >= 1000 && unit + 1 < units.length) {
    count /= 1000;
    ++unit;
  }
  return `${count.toPrecision(count < 1000 && unit > 0 ? 3 : 4).replace(/\.0+$/, "")} ${units[unit]}`;
}

export function duration(seconds: number): string {
  if (seconds < 10) return `${short(seconds)} s`;
  const whole = Math.round(seconds);
  const two = (number: number) => String(number).padStart(2, "0");
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)}:${two(whole % 60)}`;
  return `${Math.floor(whole / 3600)}:${two(Math.floor(whole / 60) % 60)}:${two(whole % 60)}`;
}

/** Three digits are more than any of these is known to. */
export const short = (value: number): string => Number(value.toPrecision(3)).toString();

/** A logarithm has no place for zero. */
export const none_on_log_axis = 0.5;

/** Of a place on a logarithmic axis, which ECharts gives as 14.999999999999986. */
export const count_on_log_axis = (place: number): string => String(Math.floor(place + 1e-6));
