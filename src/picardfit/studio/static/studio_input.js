// A field or slider that keeps what a person does in it. Vue gives a plain input its first value back whenever anything
// on the page is drawn again.
export default {
  template: '<component :is="tag" :value="shown" @input="shown = $event.target.value"></component>',
  props: { tag: String, value: String },
  data() {
    return { shown: this.value };
  },
  watch: {
    value(other) {
      this.shown = other;
    },
  },
};
