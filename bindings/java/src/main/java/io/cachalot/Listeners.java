// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot;

import java.lang.ref.WeakReference;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Consumer;
import java.util.function.Function;

/**
 * What the program wants to have called for an allocator. The allocator has it, and the library only a weak reference
 * to it: a listener may refer to its own allocator without keeping it for ever.
 */
final class Listeners {
  private final Set<Object> all = ConcurrentHashMap.newKeySet();

  <T> Ref<T> add(T listener) {
    Holder<T> holder = new Holder<>(listener);
    all.add(holder);
    return new Ref<>(holder);
  }

  void remove(Ref<?> ref) {
    Object holder = ref.holder.get();
    if (holder != null) {
      all.remove(holder);
    }
  }

  int size() {
    return all.size();
  }

  /** One listener may be added twice. */
  private static final class Holder<T> {
    final T listener;

    Holder(T listener) {
      this.listener = listener;
    }
  }

  /** What the library has. */
  static final class Ref<T> {
    private final WeakReference<Holder<T>> holder;

    Ref(Holder<T> holder) {
      this.holder = new WeakReference<>(holder);
    }

    /** Calls it; the default, if its allocator has been collected. */
    <R> R get(R otherwise, Function<T, R> call) {
      Holder<T> found = holder.get();
      return found == null ? otherwise : call.apply(found.listener);
    }

    void call(Consumer<T> call) {
      get(null, listener -> {
        call.accept(listener);
        return null;
      });
    }

    /** Calls it where the library holds a lock, so that it must not call back. */
    void underLock(Consumer<T> call) {
      Scratch.underLock(() -> {
        call(call);
        return null;
      });
    }
  }
}
