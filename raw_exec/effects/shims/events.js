import unavailable from "raw:unavailable";

class EventEmitter {
  static defaultMaxListeners = 10;
  #listeners = new Map();
  #most;

  #add(name, listener, shown, atFront) {
    if (typeof listener !== "function") throw new TypeError('The "listener" argument must be of type function');
    if (this.#listeners.has("newListener")) this.emit("newListener", name, shown);
    const list = this.#listeners.get(name) ?? [];
    const item = { listener, shown };
    this.#listeners.set(name, atFront ? [item, ...list] : [...list, item]);
    return this;
  }
  on(name, listener) { return this.#add(name, listener, listener, false); }
  addListener(name, listener) { return this.on(name, listener); }
  prependListener(name, listener) { return this.#add(name, listener, listener, true); }
  once(name, listener) { return this.#add(name, this.#wrap(name, listener), listener, false); }
  prependOnceListener(name, listener) { return this.#add(name, this.#wrap(name, listener), listener, true); }
  #wrap(name, listener) {
    if (typeof listener !== "function") return listener;
    const emitter = this;
    return function (...args) {
      emitter.off(name, listener);
      return Reflect.apply(listener, this, args);
    };
  }
  off(name, listener) {
    const list = this.#listeners.get(name) ?? [];
    const at = list.findLastIndex((item) => item.shown === listener || item.listener === listener);
    if (at < 0) return this;
    const rest = list.filter((_, index) => index !== at);
    if (rest.length) this.#listeners.set(name, rest);
    else this.#listeners.delete(name);
    if (this.#listeners.has("removeListener")) this.emit("removeListener", name, listener);
    return this;
  }
  removeListener(name, listener) { return this.off(name, listener); }
  removeAllListeners(name) {
    if (name === undefined) this.#listeners.clear();
    else this.#listeners.delete(name);
    return this;
  }
  emit(name, ...args) {
    const list = this.#listeners.get(name);
    if (list === undefined) {
      if (name !== "error") return false;
      throw args[0] instanceof Error ? args[0] : new Error("Unhandled error. (" + String(args[0]) + ")");
    }
    for (const item of list) Reflect.apply(item.listener, this, args);
    return true;
  }
  listeners(name) { return (this.#listeners.get(name) ?? []).map((item) => item.shown); }
  rawListeners(name) { return (this.#listeners.get(name) ?? []).map((item) => item.listener); }
  listenerCount(name) { return (this.#listeners.get(name) ?? []).length; }
  eventNames() { return [...this.#listeners.keys()]; }
  setMaxListeners(most) { this.#most = most; return this; }
  getMaxListeners() { return this.#most ?? EventEmitter.defaultMaxListeners; }
}

EventEmitter.EventEmitter = EventEmitter;
const once = unavailable("events.once");
const on = unavailable("events.on");
const { defaultMaxListeners } = EventEmitter;
const setMaxListeners = () => {};

export { EventEmitter, EventEmitter as default, defaultMaxListeners, on, once, setMaxListeners };
