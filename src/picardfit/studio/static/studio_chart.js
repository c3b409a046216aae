// A chart of ECharts. NiceGUI's own waits before it makes the chart: one that goes in between cannot be disposed of, and
// a curve that comes in between is lost. This one is there as soon as it is mounted.
import { echarts } from "nicegui-echart";
import { convertDynamicProperties } from "../../static/utils/dynamic_properties.js";

export default {
  template: "<div></div>",
  props: { options: Object },
  mounted() {
    this.chart = echarts.init(this.$el);
    this.chart.on("click", (e) => this.$emit("componentClick", e));
    this.observer = new ResizeObserver(() => this.chart.resize());
    this.observer.observe(this.$el);
    this.update_chart();
  },
  beforeUnmount() {
    this.observer.disconnect();
    this.chart.dispose();
  },
  watch: {
    options: "update_chart", // rather than a call from outside, which may come before this script
  },
  methods: {
    update_chart() {
      convertDynamicProperties(this.options, true);
      const before = this.chart.getOption()?.series?.length;
      this.chart.setOption(this.options, { notMerge: before !== this.options.series?.length });
    },
    // Put the series with the id "curve" through other points.
    follow(points) {
      this.chart.setOption({ series: [{ id: "curve", data: points }] });
    },
  },
};
