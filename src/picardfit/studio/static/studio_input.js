// A field, list or slider that keeps what a person does in it. Vue gives a plain input its first value back whenever
// anything on the page is drawn again.
//
// A field may be drawn anew while somebody types in it. What its predecessor then sends reaches nobody, so a field with
// a name keeps what was typed until the page says that it has taken it, and the field of that name that comes next
// sends it again.
const kept = new Map(); // name of a field -> { value, caret, number }; the number is 0 until the field is left
let count = 0;
let left = ""; // name of the field that had the focus when the page was drawn anew

export default {
  template: `<component :is="tag" ref="field" :value="shown" @input="type" @change="leave" @blur="leave"
    @keydown.enter="leave"><slot></slot></component>`,
  props: { tag: String, value: String, name: String, taken: Number },
  data() {
    return { shown: this.waiting()?.value ?? this.value };
  },
  watch: {
    value(other) {
      if (!this.waiting()) this.shown = other;
    },
    taken() {
      this.waiting();
    },
  },
  mounted() {
    const own = this.waiting();
    const again = left && left === this.name;
    left = again ? "" : left;
    if (again && !(own && !own.number)) this.$refs.field.focus();
    if (own?.number) this.$emit("take", own.number, own.value);
    else if (own) {
      this.$refs.field.focus();
      if (own.caret !== null) this.$refs.field.setSelectionRange(own.caret, own.caret);
    }
  },
  beforeUnmount() {
    this.gone = true; // it loses the focus, but nobody has left it
    if (this.$refs.field === document.activeElement) left = this.name ?? "";
  },
  methods: {
    waiting() {
      const own = kept.get(this.name);
      if (own?.number && own.number <= this.taken) kept.delete(this.name);
      return kept.get(this.name);
    },
    type(event) {
      this.shown = event.target.value;
      if (this.name) kept.set(this.name, { value: this.shown, caret: event.target.selectionStart, number: 0 });
    },
    leave() {
      const own = kept.get(this.name);
      if (this.gone || !own || own.number) return;
      own.number = ++count;
      this.$emit("take", own.number, own.value);
    },
  },
};
