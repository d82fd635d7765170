/** Which test images come first: those that say most about what went wrong. */
import type { Sample } from "./report";

/** Mistakes from the most confident on, then right answers from the least confident on. */
export function in_order(samples: Sample[]): Sample[] {
  const sign = ({ truth, answer }: Sample) => (truth !== answer ? -1 : 1);
  return [...samples].sort((a, b) => sign(a) - sign(b) || sign(a) * (a.confidence - b.confidence));
}
